#include "distributed/work.h"

#include <c10/core/StreamGuard.h>

namespace hp::torch_adapter {
namespace {

c10::intrusive_ptr<c10::ivalue::Future> future_of_tensors(std::vector<c10::Device> devices) {
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()), std::move(devices));
}

}  // namespace

DeviceWork::DeviceWork(int rank, c10d::OpType type, c10::Device device, std::vector<at::Tensor> results, bool blocking)
    : Work(rank, type),
      results_(std::move(results)),
      blocking_(blocking),
      future_(future_of_tensors({device})),
      end_(device.type()) {}

void DeviceWork::queued(const c10::Stream& stream) {
  end_.record(stream);
  // The future records events on the current streams.
  const c10::StreamGuard guard(stream);
  future_->markCompleted(c10::IValue(results_));
}

void DeviceWork::failed(std::exception_ptr error) { future_->setError(std::move(error)); }

bool DeviceWork::isCompleted() { return future_->completed() && (future_->hasError() || end_.query()); }

bool DeviceWork::isSuccess() const { return future_->completed() && !future_->hasError(); }

std::exception_ptr DeviceWork::exception() const {
  return future_->hasError() ? future_->exception_ptr() : std::exception_ptr();
}

void DeviceWork::synchronize() {
  if (blocking_) {
    end_.synchronize();
  } else {
    const c10::impl::VirtualGuardImpl guard(kDeviceType);
    end_.block(guard.getStream(device()));
  }
}

bool DeviceWork::wait(std::chrono::milliseconds /*timeout*/) {
  // The transports apply the group's timeout.
  future_->wait();
  if (future_->hasError()) std::rethrow_exception(future_->exception_ptr());
  synchronize();
  return true;
}

CoalescedWork::CoalescedWork(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, type), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isSuccess(); });
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr found = work->exception()) return found;
  }
  return {};
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& work : works_) {
    for (const at::Tensor& tensor : work->result()) all.push_back(tensor);
  }
  return all;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

void CoalescedWork::synchronize() {
  for (const auto& work : works_) work->synchronize();
}

c10::intrusive_ptr<c10::ivalue::Future> CoalescedWork::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& work : works_) futures.push_back(work->getFuture());
  return c10::collectAll(futures);
}

}  // namespace hp::torch_adapter
