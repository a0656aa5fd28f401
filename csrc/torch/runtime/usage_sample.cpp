#include "runtime/usage_sample.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>

namespace hp::torch_adapter {
namespace {

std::atomic<int64_t> sampled_period{0};
std::atomic<at::CallbackHandle> sampler{at::INVALID_CALLBACK_HANDLE};
std::atomic<int64_t> device_samples{0};
std::atomic<int64_t> cpu_samples{0};

constexpr int64_t kEnoughSamples = 8;

struct ArgumentDevices {
  bool device = false;
  bool cpu = false;

  void add(const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    device |= tensor.is_privateuseone();
    // A wrapped number may accompany tensors of any device.
    cpu |= tensor.is_cpu() && !tensor.unsafeGetTensorImpl()->is_wrapped_number();
  }
};

std::unique_ptr<at::ObserverContext> count_call(const at::RecordFunction& call) {
  ArgumentDevices found;
  for (const c10::IValue& value : call.inputs()) {
    if (value.isTensor()) {
      found.add(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) found.add(tensor);
    }
  }
  if (found.device) {
    // Stop sampling once the device is in use. An exact count continues.
    const bool enough = device_samples.fetch_add(1, std::memory_order_relaxed) + 1 == kEnoughSamples;
    const at::CallbackHandle handle = sampler.load();
    if (enough && sampled_period.load() > 1 && handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(handle);
  } else if (found.cpu) {
    cpu_samples.fetch_add(1, std::memory_order_relaxed);
  }
  return nullptr;
}

}  // namespace

void start_usage_sample(int64_t period) {
  int64_t none = 0;
  if (!sampled_period.compare_exchange_strong(none, period)) return;
  sampler = at::addGlobalCallback(at::RecordFunctionCallback(&count_call)
                                      .needsInputs(true)
                                      .samplingProb(1.0 / static_cast<double>(std::max<int64_t>(period, 1)))
                                      .scopes({at::RecordScope::FUNCTION}));
}

OperatorUse operator_use() {
  const int64_t period = sampled_period.load();
  return {device_samples.load(std::memory_order_relaxed) * period,
          cpu_samples.load(std::memory_order_relaxed) * period};
}

}  // namespace hp::torch_adapter
