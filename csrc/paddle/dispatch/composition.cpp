#include "dispatch/composition.h"

#include <paddle/phi/core/enforce.h>

#include "core/tensor/copy_views.h"
#include "ops/creation.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter {

StandardOp copy_op("copy");

namespace {

template <class T>
std::array<int64_t, 2> bits_as(const phi::Scalar& value) {
  std::array<int64_t, 2> words{};
  const T element = value.to<T>();
  std::memcpy(words.data(), &element, sizeof(element));
  return words;
}

}  // namespace

const OpBinding& StandardOp::make_binding(Runtime& runtime) {
  return bindings_.create(runtime, "hardpoint::" + standard_, standard_);
}

bool PointwiseOp::operator()(Device& device, const View& output, std::initializer_list<View> inputs,
                             std::initializer_list<double> attributes, uint32_t variant) {
  hp::PointwiseCall call;
  call.compute = output.dtype == DType::kBool ? inputs.begin()->dtype : output.dtype;
  call.variant = variant;
  call.output = output;
  for (const View& input : inputs) call.inputs[call.num_inputs++] = input;
  for (double value : attributes) call.attributes[call.num_attributes++] = {value, static_cast<int64_t>(value), 0};
  return run_pointwise(on(device), kernels_, device, call);
}

bool count_decomposed(const Call& call) {
  call.kernel.op->count(Tier::kDecomposition);
  if (observed()) notify({*call.kernel.op, Tier::kDecomposition, false, nullptr});
  return true;
}

ShapedView& ShapedView::unsqueeze(int d) {
  for (int k = view_.ndim++; k > d; --k) sizes_[k] = sizes_[k - 1], strides_[k] = strides_[k - 1];
  sizes_[d] = 1;
  strides_[d] = 0;
  return *this;
}

ShapedView& ShapedView::drop(int d) {
  --view_.ndim;
  for (int k = d; k < view_.ndim; ++k) sizes_[k] = sizes_[k + 1], strides_[k] = strides_[k + 1];
  return *this;
}

ShapedView& ShapedView::expand(int ndim, const int64_t* sizes) {
  while (view_.ndim < ndim) unsqueeze(0);
  for (int d = 0; d < ndim; ++d) {
    if (sizes_[d] == sizes[d]) continue;
    // Paddle's shape functions do not check every operand, and not in graphs.
    PADDLE_ENFORCE_EQ(sizes_[d], 1,
                      common::errors::InvalidArgument("dimension %d has size %d, which cannot be broadcast to %d", d,
                                                      sizes_[d], sizes[d]));
    sizes_[d] = sizes[d];
    strides_[d] = 0;
  }
  return *this;
}

std::array<int64_t, 2> bits_of(const phi::Scalar& value, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return bits_as<float>(value);
    case DType::kF64:
      return bits_as<double>(value);
    case DType::kF16:
      return bits_as<phi::dtype::float16>(value);
    case DType::kBF16:
      return bits_as<phi::dtype::bfloat16>(value);
    case DType::kI8:
      return bits_as<int8_t>(value);
    case DType::kI16:
      return bits_as<int16_t>(value);
    case DType::kI32:
      return bits_as<int32_t>(value);
    case DType::kU8:
      return bits_as<uint8_t>(value);
    case DType::kBool:
      return bits_as<bool>(value);
    case DType::kC64:
      return bits_as<phi::dtype::complex<float>>(value);
    case DType::kC128:
      return bits_as<phi::dtype::complex<double>>(value);
    default:
      return bits_as<int64_t>(value);
  }
}

bool copy(const OpBinding& binding, Device& device, const View& to, const View& from) {
  if (to.numel() == 0) return true;
  if (to.dtype == from.dtype && to.contiguous() && from.contiguous()) {
    const OperatorScope scope(binding.op);
    if (observed()) notify({binding.op, Tier::kVendor, true, nullptr});
    if (to.data != from.data) device.copy_on_device(to.data, from.data, to.bytes(), current_stream(device));
    binding.op.count(Tier::kVendor);  // served by the plug-in's copy function
    if (observed()) notify({binding.op, Tier::kVendor, false, nullptr});
    return true;
  }
  if (call_vendor(binding, device, {output(to), input(from)})) return true;
  PortableScope scope(binding);
  return copy_portable(binding.op, device, to, from) && scope.done();
}

bool allocate_copy(Call& call, DenseTensor& output, const DenseTensor& source, View& out) {
  static StandardOp copy_op("copy");
  const DenseTensor before = source;  // keeps the memory alive if `output` is the same tensor
  out = call.allocate(output);
  return out.data == before.data() || copy(copy_op.on(call.device), call.device, out, view(before));
}

bool sum_to(Device& device, const View& out, const View& from) {
  static StandardOp copy_op("copy"), sum_op("sum");
  if (same_sizes(out, from)) return copy(copy_op.on(device), device, out, from);
  ShapedView target(out);
  while (target.ndim() < from.ndim) target.unsqueeze(0);
  uint64_t dims = 0;
  for (int d = 0; d < from.ndim; ++d) {
    if (target.size(d) == 1 && from.sizes[d] != 1) dims |= uint64_t{1} << d;
  }
  // `from` has only leading dimensions of size 1 more than `out`.
  if (dims == 0) return copy(copy_op.on(device), device, target, from);
  return hp::ops::sum(sum_op.on(device), device, target, from, dims, true);
}

bool fill(Device& device, const View& out, const phi::Scalar& value) {
  static StandardOp fill_op("fill");
  return out.numel() == 0 || fill(fill_op.on(device), device, out, value);
}

bool fill(const OpBinding& binding, Device& device, const View& out, const phi::Scalar& value) {
  const VendorArgument number = is_float(out.dtype) ? attribute(value.to<double>()) : attribute(value.to<int64_t>());
  if (!is_complex(out.dtype) && call_vendor(binding, device, {output(out), number})) return true;
  return binding.portable_allowed && hp::ops::fill(binding, device, out, bits_of(value, out.dtype).data());
}

Converted::Converted(Device& device, const View& original, DType dtype)
    : device_(device), original_(original), view_(original) {
  if (!original.defined() || original.dtype == dtype) return;
  temporary_.emplace(device, dtype, original.ndim, original.sizes);
  view_ = *temporary_;
}

bool Converted::read() {
  static StandardOp step("copy");
  return !temporary_ || copy(step.on(device_), device_, view_, original_);
}

bool Converted::write() {
  static StandardOp step("copy");
  return !temporary_ || copy(step.on(device_), device_, original_, view_);
}

uint64_t dim_mask(const std::vector<int64_t>& dims, int ndim) {
  if (dims.empty()) return (uint64_t{1} << ndim) - 1;
  uint64_t mask = 0;
  for (int64_t d : dims) mask |= uint64_t{1} << wrap_dim(d, ndim);
  return mask;
}

}  // namespace hp::paddle_adapter
