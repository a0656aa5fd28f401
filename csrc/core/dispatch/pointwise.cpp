#include "core/dispatch/pointwise.h"

#include <optional>

#include "core/memory/scratch.h"
#include "core/tensor/copy_views.h"

namespace hp {
namespace {

enum Access { kBroadcast, kContiguous, kStrided, kNumber };

Access inner_access(const PointwiseLaunch& launch, int k) {
  if (launch.operands[k].is_number) return kNumber;
  const int64_t stride = launch.shape.geometry.stride[k][0];
  return stride == info(launch.operands[k].dtype).bytes ? kContiguous : stride == 0 ? kBroadcast : kStrided;
}

// The specialization as text, for the generator (kernels/pointwise.py).
std::string describe(const void* self) {
  static const char* const access[] = {"broadcast", "contiguous", "strided", "number"};
  const auto& launch = *static_cast<const PointwiseLaunch*>(self);
  std::string text = std::string("compute=") + info(launch.compute).name +
                     " outputs=" + std::to_string(launch.num_outputs) + " variant=" + std::to_string(launch.variant) +
                     " dimensions=" + std::to_string(launch.dimensions) + " operands=";
  for (int k = 0; k < launch.num_operands; ++k) {
    text +=
        std::string(k == 0 ? "" : ",") + info(launch.operands[k].dtype).name + ":" + access[inner_access(launch, k)];
  }
  return text;
}

// Packs numbers as launch arguments of the widest type of their kind. Arguments point to the numbers passed to add().
class NumberArguments {
 public:
  NumberArguments(DType compute, HpLaunchArg* args, uint32_t& count)
      : integral_(!is_float(compute) && !is_complex(compute)),
        complex_(is_complex(compute)),
        args_(args),
        count_(count) {}
  void add(const PointwiseNumber& number) {
    if (integral_) {
      args_[count_++] = {&number.integer, sizeof(number.integer), 0};
      return;
    }
    args_[count_++] = {&number.real, sizeof(number.real), 0};
    if (complex_) args_[count_++] = {&number.imaginary, sizeof(number.imaginary), 0};
  }

 private:
  const bool integral_, complex_;
  HpLaunchArg* const args_;
  uint32_t& count_;
};

// Expands an input to the output's sizes: broadcast dimensions get stride 0.
void expand(View& input, const View& output, int64_t* strides) {
  const int missing = output.ndim - input.ndim;
  for (int d = 0; d < output.ndim; ++d) {
    const bool broadcast = d < missing || (input.sizes[d - missing] == 1 && output.sizes[d] != 1);
    strides[d] = broadcast ? 0 : input.strides[d - missing];
  }
  input.ndim = output.ndim;
  input.sizes = output.sizes;
  input.strides = strides;
}

bool convertible(DType from, DType to) { return from == to || (is_computable(from) && is_computable(to)); }

// A dense buffer in the compute dtype that replaces an operand of another dtype.
class ConvertedView {
 public:
  ConvertedView(Device& device, const View& original, DType dtype) : view_(original) {
    view_.dtype = dtype;
    view_.strides = dense_strides(original, strides_);
    scratch_.emplace(device, view_.bytes());
    view_.data = scratch_->get();
  }
  ConvertedView(const ConvertedView&) = delete;
  const View& get() const { return view_; }

 private:
  View view_;
  int64_t strides_[kMaxViewRank];
  std::optional<Scratch> scratch_;
};

}  // namespace

bool launch_pointwise(Operator& op, PortableKernelTable& kernels, Device& device, const PointwiseLaunch& launch) {
  SpecializationKey key;
  key.types = static_cast<uint64_t>(launch.compute) | static_cast<uint64_t>(launch.num_operands) << 8;
  key.layout = launch.variant | static_cast<uint64_t>(launch.dimensions) << 32;
  for (int k = 0; k < launch.num_operands; ++k) {
    key.types |= static_cast<uint64_t>(launch.operands[k].dtype) << (16 + 8 * k);
    key.layout |= static_cast<uint64_t>(inner_access(launch, k)) << (40 + 2 * k);
  }
  const PortableKernel& kernel = kernels.get(device, key, &describe, &launch);
  if (kernel.function == nullptr) return false;

  // A complex number takes two arguments.
  std::array<HpLaunchArg, 2 * (PointwiseLaunch::kMaxOperands + PointwiseLaunch::kMaxAttributes) + 1> args;
  uint32_t count = 0;
  NumberArguments numbers(launch.compute, args.data(), count);
  for (int k = 0; k < launch.num_operands; ++k) {
    const PointwiseLaunch::Operand& operand = launch.operands[k];
    if (operand.is_number) {
      numbers.add(operand.number);
    } else {
      args[count++] = {&operand.data, sizeof(void*), 1};
    }
  }
  for (int a = 0; a < launch.num_attributes; ++a) numbers.add(launch.attributes[a]);
  args[count++] = {&launch.shape, sizeof(launch.shape), 0};
  if (__builtin_expect(observed(), 0)) notify({op, Tier::kPortable, true, nullptr});
  launch_portable(op, kernel, current_stream(device), launch.shape.elements, args.data(), count);
  op.count(Tier::kPortable);
  if (__builtin_expect(observed(), 0)) notify({op, Tier::kPortable, false, nullptr});
  return true;
}

bool launch_pointwise(Operator& op, PortableKernelTable& kernels, Device& device, const PointwiseCall& call) {
  const View& output = call.output;
  if (device.plugin.compiler.compile == nullptr || call.compute == DType::kNone || !output.defined()) return false;
  PointwiseLaunch launch;
  launch.compute = call.compute;
  launch.variant = call.variant;
  launch.num_outputs = 1;
  launch.num_operands = 1 + call.num_inputs;
  launch.num_attributes = call.num_attributes;
  launch.attributes = call.attributes;
  for (int k = 0; k < launch.num_operands; ++k) {
    const View& view = k == 0 ? output : call.inputs[k - 1];
    if (!view.defined() || view.ndim > output.ndim) return false;
    launch.operands[k] = {view.data, view.dtype, false, {}};
  }
  launch.shape.elements = output.numel();
  if (launch.shape.elements == 0) return true;

  CollapsedDims<PointwiseLaunch::kMaxOperands> dimensions;
  for (int from_end = 0; from_end < output.ndim; ++from_end) {
    std::array<int64_t, PointwiseLaunch::kMaxOperands> strides{};
    for (int k = 0; k < launch.num_operands; ++k) {
      const View& view = k == 0 ? output : call.inputs[k - 1];
      const int d = view.ndim - 1 - from_end;
      if (d >= 0 && view.sizes[d] != 1) strides[k] = view.strides[d] * info(view.dtype).bytes;
    }
    dimensions.add(output.sizes[output.ndim - 1 - from_end], strides);
  }
  if (dimensions.count() > kMaxKernelRank) return false;
  launch.dimensions = std::max(1, dimensions.count());
  if (dimensions.count() > 0) {
    dimensions.write(launch.shape.geometry);
  } else {
    launch.shape.geometry.size[0] = 1;
    for (int k = 0; k < launch.num_operands; ++k) {
      launch.shape.geometry.stride[k][0] = info(launch.operands[k].dtype).bytes;
    }
  }
  return launch_pointwise(op, kernels, device, launch);
}

bool call_vendor_pointwise(Operator& op, const Kernel& kernel, Device& device, DType compute, VendorArgument* first,
                           VendorArgument* last) {
  std::array<std::array<int64_t, kMaxViewRank>, PointwiseCall::kMaxInputs> strides;
  std::array<std::optional<ConvertedView>, PointwiseCall::kMaxInputs> converted;
  const View output = first->view;
  if (!output.defined() || !convertible(compute, output.dtype)) return false;
  int inputs = 0;
  for (VendorArgument* argument = first + 1; argument != last; ++argument) {
    if (argument->kind != VendorArgument::kInput) continue;
    View& view = argument->view;
    if (!view.defined()) return false;
    if (!argument->keeps_dtype && view.dtype != compute) {
      if (!convertible(view.dtype, compute)) return false;
      const View& buffer = converted[inputs].emplace(device, view, compute).get();
      copy_views(device, buffer, view);
      view = buffer;
    }
    expand(view, output, strides[inputs++].data());
  }
  std::optional<ConvertedView> result;
  if (output.dtype != compute) first->view = result.emplace(device, output, compute).get();
  if (!call_vendor(op, &kernel, device, first, last)) return false;
  if (result) copy_views(device, output, result->get());
  return true;
}

}  // namespace hp
