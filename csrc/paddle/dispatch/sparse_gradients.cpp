#include "dispatch/sparse_gradients.h"

#include <mutex>

namespace hp::paddle_adapter {
namespace {

thread_local int backward_depth = 0;

using Memory = std::weak_ptr<phi::Allocation>;
std::mutex gradients_mutex;
std::vector<Memory>& gradients() {
  static auto* list = new std::vector<Memory>;
  return *list;
}

bool is_sparse_gradient(const DenseTensor& values) {
  const auto& memory = gradients();
  return std::any_of(memory.begin(), memory.end(), [&](const Memory& known) {
    return known.lock() == values.Holder() && values.Holder() != nullptr;
  });
}

}  // namespace

std::atomic<bool> has_sparse_gradients{false};

void enter_backward() { ++backward_depth; }
void leave_backward() { --backward_depth; }
bool in_backward() { return backward_depth != 0; }

void add_sparse_gradient(const phi::SparseCooTensor& gradient) {
  if (backward_depth == 0 || gradient.values().Holder() == nullptr) return;
  std::lock_guard lock(gradients_mutex);
  auto& memory = gradients();
  memory.erase(std::remove_if(memory.begin(), memory.end(), [](const Memory& known) { return known.expired(); }),
               memory.end());
  memory.push_back(gradient.values().Holder());
  has_sparse_gradients.store(true, std::memory_order_relaxed);
}

void finish_sparse_sum(const Call& call) {
  if (backward_depth == 0 || call.kernel.name != "add") return;
  const DenseTensor &added = *call.input(0), &total = *call.input(1), &sum = *call.output(0);
  {
    std::lock_guard lock(gradients_mutex);
    if (!is_sparse_gradient(added) || !is_sparse_gradient(total)) return;
  }
  if (sum.dtype() != total.dtype() || sum.numel() != total.numel()) {
    throw Error(HP_NOT_SUPPORTED, "cannot add gradients of a sparse tensor: they differ in dtype or number of values");
  }
  Stream& stream = stream_of(call.context);
  const size_t bytes = static_cast<size_t>(sum.numel()) * phi::SizeOf(sum.dtype());
  call.device.copy_on_device(const_cast<void*>(total.data()), sum.data(), bytes, stream);
}

}  // namespace hp::paddle_adapter
