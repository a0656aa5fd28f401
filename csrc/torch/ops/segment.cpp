#include "ops/segment.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <limits>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<int64_t> reduction_of(std::string_view name) {
  constexpr std::string_view names[] = {"max", "mean", "min", "sum", "prod"};
  const auto* const found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return {};
  return found - std::begin(names);
}

// The initial value of a reduction.
double start(int64_t reduction, const std::optional<at::Scalar>& initial) {
  constexpr double starts[] = {-kInfinity, 0, kInfinity, 0, 1};
  return initial ? initial->to<double>() : starts[reduction];
}

// Contiguous int64 offsets; nothing if torch would raise an error.
OptionalTensor segment_offsets(const Tensor& data, const OptionalTensor& lengths, const OptionalTensor& offsets,
                               int64_t axis, bool checked) {
  const bool by_length = !offsets || !offsets->defined();
  if (by_length && (!lengths || !lengths->defined())) return {};
  const Tensor& source = by_length ? *lengths : *offsets;
  if ((source.scalar_type() != at::kLong && source.scalar_type() != at::kInt) || source.dim() != axis + 1) return {};
  if (source.sizes().slice(0, axis) != data.sizes().slice(0, axis)) return {};
  const Tensor from = source.to(at::kLong);
  if (!by_length) return from.size(axis) == 0 ? OptionalTensor() : from.contiguous();
  if (checked && from.numel() > 0) {
    if (at::amin(from).item<int64_t>() < 0) return {};
    const Tensor sums = at::eq(at::sum(from, axis), data.size(axis));
    if (!at::amin(sums).item<bool>()) return {};
  }
  return at::constant_pad_nd(at::cumsum(from, axis), {1, 0}).contiguous();
}

bool takes(const Tensor& data, int64_t axis) {
  return data.is_floating_point() && to_core(data.scalar_type()) != DType::kNone && data.dim() > 0 &&
         axis >= -data.dim() && axis < data.dim();
}

OptionalTensor segment_reduce(const Overload& overload, const Tensor& data, std::string_view reduce,
                              const OptionalTensor& lengths, const OptionalTensor& indices,
                              const OptionalTensor& offsets, int64_t axis, bool unsafe,
                              const std::optional<at::Scalar>& initial) {
  const auto reduction = reduction_of(reduce);
  if (!reduction || !takes(data, axis) || (indices && indices->defined())) return {};
  axis = at::maybe_wrap_dim(axis, data.dim());
  const OptionalTensor bounds = segment_offsets(data, lengths, offsets, axis, !unsafe);
  if (!bounds) return {};
  std::vector<int64_t> shape = data.sizes().vec();
  shape[axis] = bounds->size(axis) - 1;
  Tensor out = empty(shape, data.scalar_type(), data.device().index());
  if (out.numel() == 0) return out;
  const Tensor from = data.contiguous();
  if (!hp::ops::segment_reduce(overload, device_holding(data), view(out), view(from), view(*bounds), *reduction, axis,
                               initial.has_value(), start(*reduction, initial)))
    return {};
  return out;
}

OptionalTensor segment_reduce_backward(const Overload& overload, const Tensor& grad, const Tensor& output,
                                       const Tensor& data, std::string_view reduce, const OptionalTensor& lengths,
                                       const OptionalTensor& offsets, int64_t axis,
                                       const std::optional<at::Scalar>& initial) {
  const auto reduction = reduction_of(reduce);
  if (!reduction || !takes(data, axis) || grad.scalar_type() != data.scalar_type() ||
      output.scalar_type() != data.scalar_type() || grad.sizes() != output.sizes())
    return {};
  axis = at::maybe_wrap_dim(axis, data.dim());
  const OptionalTensor bounds = segment_offsets(data, lengths, offsets, axis, false);
  if (!bounds) return {};
  std::vector<int64_t> shape = data.sizes().vec();
  shape[axis] = bounds->size(axis) - 1;
  if (grad.sizes() != at::IntArrayRef(shape)) return {};
  const Tensor from = data.contiguous(), g = grad.contiguous(), y = output.contiguous();
  Tensor out = at::zeros_like(from);
  if (out.numel() == 0 || grad.numel() == 0) return out;
  if (!hp::ops::segment_reduce_backward(overload, device_holding(data), view(out), view(g), view(y), view(from),
                                        view(*bounds), *reduction, axis, start(*reduction, initial)))
    return {};
  return out;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/segment.inc"
