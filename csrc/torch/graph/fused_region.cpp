#include "graph/fused_region.h"

#include <ATen/ExpandUtils.h>

#include "runtime/adapter.h"
#include "runtime/tensor_view.h"

namespace hp::torch_adapter {
namespace {

enum Inner : uint8_t { kBroadcast, kContiguous, kStrided };

// The loop nest over all operands, fastest dimension first, with strides in bytes. Packed as the kernel declares it:
// elements, shape[D], strides[N][D].
class Loops {
 public:
  Loops(at::IntArrayRef sizes, const std::vector<int64_t>& order, const std::vector<const at::Tensor*>& operands)
      : operands_(operands) {
    const auto ndim = static_cast<int64_t>(sizes.size());
    for (int64_t k = ndim - 1; k >= 0; --k) {
      const int64_t d = order[k], size = sizes[d];
      if (size == 1) continue;
      std::vector<int64_t> strides;
      for (const at::Tensor* operand : operands) {
        const int64_t dim = d - (ndim - operand->dim());
        strides.push_back(dim < 0 || operand->size(dim) == 1
                              ? 0
                              : operand->stride(dim) * static_cast<int64_t>(operand->element_size()));
      }
      if (!shape_.empty() && follows(strides)) {
        shape_.back() *= size;
      } else {
        shape_.push_back(size);
        strides_.push_back(std::move(strides));
      }
    }
    if (shape_.empty()) {
      shape_.push_back(1);
      strides_.emplace_back();
      for (const at::Tensor* operand : operands) strides_[0].push_back(static_cast<int64_t>(operand->element_size()));
    }
  }

  size_t dimensions() const { return shape_.size(); }
  Inner inner(size_t k) const {
    const int64_t stride = strides_[0][k];
    return stride == static_cast<int64_t>(operands_[k]->element_size()) ? kContiguous
           : stride == 0                                                ? kBroadcast
                                                                        : kStrided;
  }
  std::vector<int64_t> packed(int64_t elements) const {
    std::vector<int64_t> values{elements};
    values.insert(values.end(), shape_.begin(), shape_.end());
    for (size_t k = 0; k < operands_.size(); ++k) {
      for (const auto& strides : strides_) values.push_back(strides[k]);
    }
    return values;
  }

 private:
  bool follows(const std::vector<int64_t>& strides) const {
    for (size_t k = 0; k < strides.size(); ++k) {
      if (strides[k] != strides_.back()[k] * shape_.back()) return false;
    }
    return true;
  }

  const std::vector<const at::Tensor*>& operands_;
  std::vector<int64_t> shape_;
  std::vector<std::vector<int64_t>> strides_;
};

struct Description {
  const Loops& loops;
  size_t operands;
  const std::string& text;

  static std::string write(const void* self) {
    static const char* const inner[] = {"broadcast", "contiguous", "strided"};
    const auto& description = *static_cast<const Description*>(self);
    std::string layout;
    for (size_t k = 0; k < description.operands; ++k) {
      layout += std::string(k == 0 ? "" : ",") + inner[description.loops.inner(k)];
    }
    return "dimensions=" + std::to_string(description.loops.dimensions()) + " layout=" + layout +
           " region=" + description.text;
  }
};

std::vector<int64_t> dense_strides(at::IntArrayRef sizes, const std::vector<int64_t>& order) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t k = sizes.size(); k-- > 0;) {
    strides[order[k]] = step;
    step *= std::max<int64_t>(1, sizes[order[k]]);
  }
  return strides;
}

}  // namespace

FusedRegion::FusedRegion(const std::string& name, std::string text, std::vector<Output> outputs,
                         std::vector<bool> integral)
    : op(Operator::intern(name)), outputs(std::move(outputs)), integral(std::move(integral)), text(std::move(text)) {}

std::vector<at::Tensor> FusedRegion::run(const std::vector<const at::Tensor*>& inputs,
                                         const std::vector<c10::Scalar>& numbers, const std::vector<bool>& reusable) {
  std::vector<int64_t> sizes;
  for (const at::Tensor* input : inputs) {
    if (!on_device(*input) || input->device() != inputs[0]->device()) return {};
    const auto broadcast = at::infer_size(sizes, input->sizes());
    sizes.assign(broadcast.begin(), broadcast.end());
  }
  if (inputs.empty() || sizes.size() > static_cast<size_t>(kMaxKernelRank)) return {};
  Device& device = device_holding(*inputs[0]);
  if (device.plugin.compiler.compile == nullptr || !op.allows(Tier::kPortable)) return {};

  std::vector<at::Tensor> results;
  std::vector<bool> taken(inputs.size());
  for (const Output& output : outputs) {
    const std::vector<int64_t> strides = dense_strides(sizes, output.order);
    at::Tensor result;
    for (size_t k = 0; k < inputs.size() && !result.defined(); ++k) {
      const at::Tensor& input = *inputs[k];
      if (reusable[k] && !taken[k] && input.scalar_type() == output.dtype && input.sizes() == sizes &&
          input.strides() == strides) {
        result = input;
        taken[k] = true;
      }
    }
    results.push_back(result.defined() ? result : empty_strided(sizes, strides, output.dtype, device.index));
  }
  const int64_t elements = results[0].numel();
  if (elements == 0) return results;

  std::vector<const at::Tensor*> operands;
  for (const at::Tensor& result : results) operands.push_back(&result);
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  const Loops loops(sizes, outputs[0].order, operands);
  SpecializationKey key;
  key.types = loops.dimensions();
  for (size_t k = 0; k < operands.size(); ++k) key.layout |= static_cast<uint64_t>(loops.inner(k)) << (2 * k);
  const Description description{loops, operands.size(), text};
  const PortableKernel& kernel = kernels_.get(device, key, &Description::write, &description);
  if (kernel.function == nullptr) return {};

  union Number {
    double real;
    int64_t integer;
  };
  std::array<void*, kMaxOperands> pointers;
  std::array<Number, kMaxNumbers> values;
  std::array<HpLaunchArg, kMaxOperands + kMaxNumbers + 1> args;
  uint32_t count = 0;
  for (size_t k = 0; k < operands.size(); ++k) {
    pointers[k] = const_cast<void*>(operands[k]->const_data_ptr());
    args[count++] = {&pointers[k], sizeof(void*), 1};
  }
  for (size_t k = 0; k < numbers.size(); ++k) {
    if (integral[k]) {
      values[k].integer = numbers[k].toLong();
    } else {
      values[k].real = numbers[k].toDouble();
    }
    args[count++] = {&values[k], sizeof(Number), 0};
  }
  const std::vector<int64_t> geometry = loops.packed(elements);
  args[count++] = {geometry.data(), static_cast<uint32_t>(geometry.size() * sizeof(int64_t)), 0};

  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, true, nullptr});
  launch_portable(op, kernel, current_stream(device), elements, args.data(), count);
  op.count(Tier::kPortable);
  if (C10_UNLIKELY(observed())) notify({op, Tier::kPortable, false, nullptr});
  return results;
}

}  // namespace hp::torch_adapter
