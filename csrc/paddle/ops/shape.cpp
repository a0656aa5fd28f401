// Operators that move elements: concatenation, permutation, slicing, repetition, diagonals.
#include "ops/shape.h"

#include "dispatch/composition.h"
#include "dispatch/slices.h"
#include "ops/call_copy.h"
#include "ops/reduction.h"

namespace hp::paddle_adapter::ops {
namespace {

bool supports_shape(const DenseTensor* tensor) {
  return tensor != nullptr && to_core(tensor->dtype()) != DType::kNone && tensor->dims().size() <= kMaxKernelRank &&
         (tensor->numel() == 0 || (tensor->initialized() && on_device(*tensor)));
}
bool supports_shape(List<const DenseTensor> tensors) {
  for (const DenseTensor* tensor : tensors) {
    if (!supports_shape(tensor)) return false;
  }
  return true;
}
// Whether the device has a copy kernel. Check before writing anything.
bool can_copy(const Call& call) {
  return copy_op.on(call.device).can_serve() && to_core(call.kernel.dtype) != DType::kNone;
}

// ---- Concatenation and splitting

bool join(Call& call, List<const DenseTensor> inputs, int64_t dim, bool stacked) {
  if (!supports_shape(inputs) || !call.binding().can_serve()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  std::vector<ShapedView> parts;
  parts.reserve(inputs.count);
  for (const DenseTensor* tensor : inputs) {
    if (tensor->numel() == 0) continue;
    parts.emplace_back(view(*tensor));
    if (stacked) parts.back().unsqueeze(static_cast<int>(dim));
  }
  const std::vector<View> views(parts.begin(), parts.end());
  return hp::ops::cat(call.binding(), call.device, out, views.data(), static_cast<int64_t>(views.size()), dim);
}
bool concat(Call& call) {
  return join(call, call.inputs(0), wrap_dim(call.integer(0), call.output(0)->dims().size()), false);
}
bool stack(Call& call) {
  return join(call, call.inputs(0), wrap_dim(call.integer(0), call.output(0)->dims().size()), true);
}
bool unstack_grad(Call& call) { return stack(call); }

// Copies consecutive slices of `from` along `dim` to the outputs, which may be null (not needed). Their lengths are
// those of `sizes`, if given. `stacked`: slices of length 1, without the dimension.
bool split_into(Call& call, const DenseTensor* from, List<DenseTensor> outs, int64_t dim, bool stacked,
                List<const DenseTensor> sizes = {}) {
  if (!supports_shape(from) || !can_copy(call)) return false;
  const View source = view(*from);
  int64_t offset = 0;
  for (int k = 0; k < outs.count; ++k) {
    const int64_t length = stacked ? 1 : sizes.count != 0 ? sizes[k]->dims()[dim] : outs[k]->dims()[dim];
    if (outs[k] != nullptr) {
      const View out = call.allocate(*outs[k]);
      if (outs[k]->numel() != 0) {
        ShapedView part(source);
        part.narrow(static_cast<int>(dim), offset, length);
        if (stacked) part.drop(static_cast<int>(dim));
        if (!copy_to(call, out, part)) return false;
      }
    }
    offset += length;
  }
  return count_decomposed(call);
}
bool concat_grad(Call& call) {
  const int ndim = call.input(1)->dims().size();
  return split_into(call, call.input(1), call.outputs(0), wrap_dim(call.integer(0), ndim), false, call.inputs(0));
}
// Attributes: sections, axis. InferMeta has set the outputs' sizes.
bool split(Call& call) {
  return split_into(call, call.input(0), call.outputs(0), wrap_dim(call.integer(1), call.input(0)->dims().size()),
                    false);
}
bool split_with_num(Call& call) { return split(call); }
bool unstack(Call& call) {
  return split_into(call, call.input(0), call.outputs(0), wrap_dim(call.integer(0), call.input(0)->dims().size()),
                    true);
}
bool unbind(Call& call) { return unstack(call); }
bool stack_grad(Call& call) { return unstack(call); }

// ---- Flip, roll and triangles

bool flip(Call& call) {
  if (!supports_shape(call.input(0)) || !call.binding().can_serve()) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  std::vector<int64_t> dims = call.integers(0);
  for (int64_t& dim : dims) dim = wrap_dim(dim, x.ndim);
  return hp::ops::flip(call.binding(), call.device, out, x, dims.data(), static_cast<int64_t>(dims.size()));
}
bool reverse(Call& call) { return flip(call); }

// Without dimensions, rolls the flattened tensor.
bool roll_by(Call& call, const DenseTensor* from, int64_t sign) {
  if (!supports_shape(from) || !call.binding().can_serve()) return false;
  const std::vector<int64_t> shifts = call.integers(0), dims = call.integers(1);
  const View x = view(*from), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t all[] = {x.numel()};
  ShapedView self(x), result(out);
  if (dims.empty()) self = ShapedView(x.data, x.dtype, 1, all), result = ShapedView(out.data, out.dtype, 1, all);
  std::array<int64_t, kMaxKernelRank> total{};
  for (size_t k = 0; k < shifts.size(); ++k) {
    const int64_t d = dims.empty() ? 0 : wrap_dim(dims[k], x.ndim), size = self.size(static_cast<int>(d));
    total[d] = ((total[d] + sign * shifts[k]) % size + size) % size;
  }
  return hp::ops::roll(call.binding(), call.device, result, self, total.data());
}
bool roll(Call& call) { return roll_by(call, call.input(0), 1); }
bool roll_grad(Call& call) { return roll_by(call, call.input(1), -1); }

// Input: x or out_grad. Attribute: diagonal.
bool triangle(Call& call, const OpBinding& binding, bool lower) {
  if (!supports_shape(call.input(0)) || !binding.can_serve() || call.input(0)->dims().size() < 2) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  return (lower ? hp::ops::tril : hp::ops::triu)(binding, call.device, out, x, call.integer(0));
}
bool tril(Call& call) { return triangle(call, call.binding(), true); }
bool triu(Call& call) { return triangle(call, call.binding(), false); }
bool tril_grad(Call& call) { return tril(call); }
bool triu_grad(Call& call) { return triu(call); }
bool tril_triu(Call& call) {
  static StandardOp lower("tril"), upper("triu");
  const bool below = call.attr<bool>(1);
  return triangle(call, (below ? lower : upper).on(call.device), below) && count_decomposed(call);
}
bool tril_triu_grad(Call& call) { return tril_triu(call); }

// ---- Transposition

ShapedView permuted(const View& x, const std::vector<int64_t>& axis, bool back) {
  ShapedView result(x);
  for (int d = 0; d < x.ndim; ++d) {
    const int from = static_cast<int>(wrap_dim(axis[d], x.ndim));
    result.size(back ? from : d) = x.sizes[back ? d : from];
    result.stride(back ? from : d) = x.strides[back ? d : from];
  }
  return result;
}
bool permute_to(Call& call, bool back) {
  if (!supports_shape(call.input(0)) || !can_copy(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return (out.numel() == 0 || copy_to(call, out, permuted(x, call.integers(0), back))) && count_decomposed(call);
}
bool transpose(Call& call) { return permute_to(call, false); }
bool transpose_grad(Call& call) { return permute_to(call, true); }

// ---- Slices

// Attributes: axes, starts, ends, infer_flags, decrease_axis.
bool slice(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!supports_shape(x) || !can_copy(call)) return false;
  const Slices slices(call.integers(0), call.integers(1), call.integers(2), {});
  ShapedView part(view(*x));
  if (x->numel() == 0 || !slices.apply(part, call.integers(4)) || !slices.fits(part, *call.output(0))) return false;
  const View out = call.allocate(0);
  return copy_to(call, out, part) && count_decomposed(call);
}
Slices strided_slices(const Call& call) {
  return {call.integers(0), call.integers(1), call.integers(2), call.integers(3)};
}
bool copy_slices(Call& call, const std::vector<int64_t>& dropped) {
  const DenseTensor* x = call.input(0);
  if (!supports_shape(x) || !can_copy(call)) return false;
  const Slices slices = strided_slices(call);
  ShapedView part(view(*x));
  if (x->numel() == 0 || !slices.apply(part, dropped) || !slices.fits(part, *call.output(0))) return false;
  const View out = call.allocate(0);
  return copy_to(call, out, part) && count_decomposed(call);
}
bool strided_slice(Call& call) { return copy_slices(call, {}); }
// More attributes: infer_flags, decrease_axis.
bool strided_slice_raw(Call& call) { return copy_slices(call, call.integers(5)); }

// Zeros, with the output gradient in the slice. Inputs: x, out_grad.
bool slices_grad(Call& call, const Slices& slices, const std::vector<int64_t>& dropped) {
  if (!supports_shape(call.input(1)) || !can_copy(call) || call.input(0)->dims().size() > kMaxKernelRank ||
      call.output(0)->numel() == 0) {
    return false;
  }
  const int64_t* sizes = call.output(0)->dims().Get();
  ShapedView slice_view(nullptr, to_core(call.kernel.dtype), call.output(0)->dims().size(), sizes);
  if (!slices.apply(slice_view, dropped) || !slices.fits(slice_view, *call.input(1))) return false;
  const View out = call.allocate(0);
  ShapedView part(out);
  slices.apply(part, dropped);
  return zero(call.device, out) && (call.input(1)->numel() == 0 || copy_to(call, part, call.view_of(1))) &&
         count_decomposed(call);
}
bool slice_grad(Call& call) {
  return slices_grad(call, Slices(call.integers(0), call.integers(1), call.integers(2), {}), call.integers(4));
}
bool strided_slice_grad(Call& call) { return slices_grad(call, strided_slices(call), {}); }
bool strided_slice_raw_grad(Call& call) { return slices_grad(call, strided_slices(call), call.integers(5)); }

// ---- set_value. Attributes: starts, ends, steps, axes, decrease_axes, none_axes.

struct Target {
  Target(const Call& call)
      : slices(call.integers(3), call.integers(0), call.integers(1), call.integers(2)), dropped(call.integers(4)) {}
  Slices slices;
  std::vector<int64_t> dropped;
};

// Leading dimensions of `value` beyond those of `part` must have size 1.
bool can_broadcast(const View& value, const View& part) {
  for (int d = 0; d < value.ndim; ++d) {
    const int k = part.ndim - value.ndim + d;
    if (k < 0 ? value.sizes[d] != 1 : value.sizes[d] != 1 && value.sizes[d] != part.sizes[k]) return false;
  }
  return true;
}
ShapedView broadcast_to(const View& value, const View& part) {
  ShapedView result(value);
  while (result.ndim() > part.ndim) result.drop(0);
  return result.expand(part.ndim, part.sizes);
}

bool set_value_with_tensor(Call& call) {
  const DenseTensor &x = *call.input(0), &value = *call.input(1);
  if (!supports_shape(&x) || !supports_shape(&value) || !can_copy(call) || x.numel() == 0 || value.numel() == 0 ||
      !call.integers(5).empty())
    return false;
  const Target target(call);
  ShapedView slice_view(view(x));
  if (!target.slices.apply(slice_view, target.dropped) || !can_broadcast(view(value), slice_view)) return false;
  View out;
  if (!allocate_copy(call, *call.output(0), x, out)) return false;
  ShapedView part(out);
  target.slices.apply(part, target.dropped);
  return (part.view().numel() == 0 || copy_to(call, part, broadcast_to(view(value), part))) && count_decomposed(call);
}

// Serves a single value; the CPU tier serves lists.
bool set_value(Call& call) {
  const DenseTensor& x = *call.input(0);
  const auto& values = call.attr<std::vector<phi::Scalar>>(7);
  if (!supports_shape(&x) || !can_copy(call) || x.numel() == 0 || values.size() != 1 || !call.integers(5).empty() ||
      is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const Target target(call);
  ShapedView slice_view(view(x));
  if (!target.slices.apply(slice_view, target.dropped)) return false;
  View out;
  if (!allocate_copy(call, *call.output(0), x, out)) return false;
  ShapedView part(out);
  target.slices.apply(part, target.dropped);
  if (part.view().numel() == 0) return count_decomposed(call);
  static PointwiseOp scale("scale");
  const bool integral = is_integer(part.view().dtype) || part.view().dtype == DType::kBool;
  const Temporary one(call.device, integral ? DType::kI64 : DType::kF64, 0, nullptr);
  return zero(call.device, one) &&
         scale(call.device, one, {one},
               {0, integral ? static_cast<double>(values[0].to<int64_t>()) : values[0].to<double>()}, 1) &&
         copy_to(call, part, broadcast_to(one, part)) && count_decomposed(call);
}

bool set_value_grads(Call& call, bool has_value_grad) {
  const DenseTensor& grad = *call.input(0);
  if (!supports_shape(&grad) || !can_copy(call) || grad.numel() == 0 || !call.integers(5).empty()) return false;
  const Target target(call);
  ShapedView slice_view(view(grad));
  if (!target.slices.apply(slice_view, target.dropped)) return false;
  if (has_value_grad && call.output(1) != nullptr) {
    const View out = call.allocate(1);
    ShapedView result(out);
    while (result.ndim() > slice_view.ndim()) result.drop(0);
    if (slice_view.view().numel() == 0 ? !zero(call.device, out) : !sum_to(call.device, result, slice_view))
      return false;
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!allocate_copy(call, *call.output(0), grad, out)) return false;
    ShapedView part(out);
    target.slices.apply(part, target.dropped);
    if (part.view().numel() != 0 && !zero(call.device, part)) return false;
  }
  return count_decomposed(call);
}
bool set_value_grad(Call& call) { return set_value_grads(call, true); }
bool set_value_with_scalar_grad(Call& call) { return set_value_grads(call, false); }

// ---- Repetition

// Views of x and of its tiled output with equal sizes: each repeated dimension is split into (times, size). Dimensions
// of size 1 are left out, so that the rank may be 0. `fits` is false if the rank exceeds kMaxKernelRank.
struct Tiling {
  Tiling(const View& x, const View& out) {
    const int leading = out.ndim - x.ndim;
    int64_t step = out.numel();
    for (int d = 0; d < out.ndim; ++d) {
      const int64_t size = d < leading ? 1 : x.sizes[d - leading];
      if (size == 0) continue;
      const int64_t times = out.sizes[d] / size;
      step /= out.sizes[d];
      if (times != 1 || size == 1) add(times, 0, step * size, true);
      if (size != 1) add(size, x.strides[d - leading], step, false);
    }
  }
  void add(int64_t size, int64_t x_stride, int64_t out_stride, bool repeated) {
    if (ndim == kMaxKernelRank) {
      fits = false;
      return;
    }
    if (repeated) mask |= uint64_t{1} << ndim;
    sizes[ndim] = size, x_strides[ndim] = x_stride, out_strides[ndim++] = out_stride;
  }
  View narrow(const View& x) const { return {x.data, x.dtype, ndim, sizes.data(), x_strides.data()}; }
  View wide(const View& out) const { return {out.data, out.dtype, ndim, sizes.data(), out_strides.data()}; }
  bool fits = true;
  int ndim = 0;
  uint64_t mask = 0;  // the repeated dimensions
  std::array<int64_t, kMaxKernelRank> sizes{}, x_strides{}, out_strides{};
};

bool tile(Call& call) {
  if (!supports_shape(call.input(0)) || !can_copy(call) || call.output(0)->dims().size() > kMaxKernelRank ||
      call.input(0)->numel() == 0 || call.output(0)->numel() == 0) {
    return false;
  }
  const View x = call.view_of(0), out = call.allocate(0);
  const Tiling tiling(x, out);
  return tiling.fits && copy_to(call, tiling.wide(out), tiling.narrow(x)) && count_decomposed(call);
}
bool tile_grad(Call& call) {
  static StandardOp sum("sum");
  if (!supports_shape(call.input(1)) || !can_copy(call) || call.input(0)->dims().size() > kMaxKernelRank ||
      call.input(1)->numel() == 0 || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const View out = call.allocate(0), grad = call.view_of(1);
  const Tiling tiling(out, grad);
  if (!tiling.fits) return false;
  if (tiling.mask == 0)
    return copy_to(call, out, ShapedView(grad.data, grad.dtype, out.ndim, out.sizes)) && count_decomposed(call);
  View target = tiling.narrow(out);
  std::array<int64_t, kMaxKernelRank> reduced = tiling.sizes;
  for (int d = 0; d < target.ndim; ++d) {
    if (tiling.mask >> d & 1) reduced[d] = 1;
  }
  target.sizes = reduced.data();
  return hp::ops::sum(sum.on(call.device), call.device, target, tiling.wide(grad), tiling.mask, true) &&
         count_decomposed(call);
}

bool expand_to(Call& call, const View& out, const View& x) {
  ShapedView from(x);
  return out.numel() == 0 || copy_to(call, out, from.expand(out.ndim, out.sizes));
}
bool expand(Call& call) {
  if (!supports_shape(call.input(0)) || !can_copy(call) || call.output(0)->dims().size() > kMaxKernelRank ||
      common::product(call.output(0)->dims()) < 0) {
    return false;
  }
  return expand_to(call, call.allocate(0), call.view_of(0)) && count_decomposed(call);
}
bool expand_as(Call& call) { return expand(call); }
// Inputs: x, out_grad.
bool expand_grad(Call& call) {
  if (!supports_shape(call.input(1)) || !can_copy(call) || call.input(1)->numel() == 0 ||
      (is_complex(to_core(call.kernel.dtype)) && call.output(0)->numel() != call.input(1)->numel())) {
    return false;
  }
  return sum_to(call.device, call.allocate(0), call.view_of(1)) && count_decomposed(call);
}
bool expand_as_grad(Call& call) { return expand_grad(call); }

bool broadcast_tensors(Call& call) {
  if (!supports_shape(call.inputs(0)) || !can_copy(call)) return false;
  for (int k = 0; k < call.inputs(0).count; ++k) {
    if (!expand_to(call, call.allocate(*call.outputs(0)[k]), view(*call.inputs(0)[k]))) return false;
  }
  return count_decomposed(call);
}
bool broadcast_tensors_grad(Call& call) {
  if (!supports_shape(call.inputs(1)) || !can_copy(call) || is_complex(to_core(call.kernel.dtype))) return false;
  for (int k = 0; k < call.inputs(1).count; ++k) {
    if (call.inputs(1)[k]->numel() == 0) return false;
  }
  for (int k = 0; k < call.outputs(0).count; ++k) {
    DenseTensor* output = call.outputs(0)[k];
    if (output != nullptr && !sum_to(call.device, call.allocate(*output), view(*call.inputs(1)[k]))) return false;
  }
  return count_decomposed(call);
}

// A vector as dimension k of `ndim`; the others have size 1.
ShapedView as_dimension(const View& vector, int k, int ndim) {
  std::array<int64_t, kMaxKernelRank> sizes;
  sizes.fill(1);
  sizes[k] = vector.numel();
  return ShapedView(vector.data, vector.dtype, ndim, sizes.data());
}
bool meshgrid(Call& call) {
  const auto inputs = call.inputs(0);
  if (!supports_shape(inputs) || !can_copy(call) || inputs.count > kMaxKernelRank) return false;
  for (int k = 0; k < inputs.count; ++k) {
    const View out = call.allocate(*call.outputs(0)[k]);
    if (!expand_to(call, out, as_dimension(view(*inputs[k]), k, out.ndim))) return false;
  }
  return count_decomposed(call);
}
bool meshgrid_grad(Call& call) {
  const auto grads = call.inputs(1);
  if (!supports_shape(grads) || !can_copy(call) || grads.count > kMaxKernelRank ||
      is_complex(to_core(call.kernel.dtype)))
    return false;
  for (int k = 0; k < grads.count; ++k) {
    if (grads[k]->numel() == 0) return false;
  }
  for (int k = 0; k < call.outputs(0).count; ++k) {
    DenseTensor* output = call.outputs(0)[k];
    if (output == nullptr) continue;
    const View grad = view(*grads[k]);
    if (!sum_to(call.device, as_dimension(call.allocate(*output), k, grad.ndim), grad)) return false;
  }
  return count_decomposed(call);
}

// Attributes: repeats, dim.

// The shape of the repeated tensor, with the repetitions as a dimension of their own after `dim`.
ShapedView with_repetitions(const View& x, int dim, int64_t times) {
  ShapedView repeated(x);
  repeated.unsqueeze(dim + 1);
  repeated.size(dim + 1) = times;
  return repeated;
}

bool repeat_interleave(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!supports_shape(x) || !can_copy(call) || x->numel() == 0 || x->dims().size() >= kMaxKernelRank) return false;
  const int64_t times = call.integer(0);
  const int dim = static_cast<int>(wrap_dim(call.integer(1), x->dims().size()));
  if (times <= 0 || x->dims().size() == 0 || call.output(0)->dims()[dim] != times * x->dims()[dim]) return false;
  const View from = call.view_of(0), out = call.allocate(0);
  const ShapedView repeated = with_repetitions(from, dim, times);
  return copy_to(call, ShapedView(out.data, out.dtype, repeated.ndim(), repeated.view().sizes), repeated) &&
         count_decomposed(call);
}

// Inputs: x, out_grad.
bool repeat_interleave_grad(Call& call) {
  const DenseTensor& grad = *call.input(1);
  const int ndim = grad.dims().size();
  if (!supports_shape(&grad) || !can_copy(call) || grad.numel() == 0 || ndim == 0 || ndim >= kMaxKernelRank) {
    return false;
  }
  const int64_t times = call.integer(0);
  const int dim = static_cast<int>(wrap_dim(call.integer(1), ndim));
  if (times <= 0 || grad.dims()[dim] != times * call.output(0)->dims()[dim]) return false;
  const View out = call.allocate(0);
  const ShapedView repeated = with_repetitions(out, dim, times);
  const View from = call.view_of(1);
  return sum_to(call.device, with_repetitions(out, dim, 1),
                ShapedView(from.data, from.dtype, repeated.ndim(), repeated.view().sizes)) &&
         count_decomposed(call);
}

// ---- Diagonals

// The diagonal of dimensions a and b, as the last dimension.
ShapedView diagonal_of(const View& x, int64_t offset, int a, int b) {
  ShapedView result(x);
  const int64_t rows = x.sizes[a], columns = x.sizes[b], down = offset < 0 ? -offset : 0,
                right = offset > 0 ? offset : 0;
  const int64_t length = std::max<int64_t>(0, std::min(rows - down, columns - right));
  result.set_data(static_cast<char*>(x.data) + (down * x.strides[a] + right * x.strides[b]) * info(x.dtype).bytes);
  const int64_t step = x.strides[a] + x.strides[b];
  result.drop(std::max(a, b)).drop(std::min(a, b));
  result.unsqueeze(result.ndim());
  result.size(result.ndim() - 1) = length;
  result.stride(result.ndim() - 1) = step;
  return result;
}
ShapedView diagonal_of(const Call& call, const View& x) {
  return diagonal_of(x, call.integer(0), static_cast<int>(wrap_dim(call.integer(1), x.ndim)),
                     static_cast<int>(wrap_dim(call.integer(2), x.ndim)));
}

// Attributes: offset, axis1, axis2.
bool diagonal(Call& call) {
  if (!supports_shape(call.input(0)) || !can_copy(call) || call.input(0)->numel() == 0) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return (out.numel() == 0 || copy_to(call, out, diagonal_of(call, x))) && count_decomposed(call);
}
bool diagonal_grad(Call& call) {
  if (!supports_shape(call.input(1)) || !can_copy(call) || call.input(0)->dims().size() > kMaxKernelRank) return false;
  const View out = call.allocate(0);
  return zero(call.device, out) &&
         (call.input(1)->numel() == 0 || copy_to(call, diagonal_of(call, out), call.view_of(1))) &&
         count_decomposed(call);
}
bool trace(Call& call) {
  static StandardOp sum("sum");
  if (!supports_shape(call.input(0)) || !can_copy(call) || call.input(0)->numel() == 0 ||
      is_complex(to_core(call.kernel.dtype)))
    return false;
  const View out = call.allocate(0);
  const ShapedView part = diagonal_of(call, call.view_of(0));
  const int last = part.view().ndim - 1;
  if (part.view().numel() == 0) return zero(call.device, out) && count_decomposed(call);
  return hp::ops::sum(sum.on(call.device), call.device, out, part, uint64_t{1} << last, false) &&
         count_decomposed(call);
}

// A vector becomes the diagonal of a matrix; of a matrix, the diagonal is taken. Attributes: offset, padding_value.
bool diag(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!supports_shape(x) || !can_copy(call) || x->numel() == 0) return false;
  const View from = call.view_of(0);
  const bool from_vector = from.ndim < 2;
  if (from_vector && call.real(1) != 0) return false;
  const View out = call.allocate(0);
  if (!from_vector)
    return (out.numel() == 0 || copy_to(call, out, diagonal_of(from, call.integer(0), 0, 1))) && count_decomposed(call);
  const int64_t length[] = {from.numel()};
  return zero(call.device, out) &&
         copy_to(call, diagonal_of(out, call.integer(0), 0, 1), ShapedView(from.data, from.dtype, 1, length)) &&
         count_decomposed(call);
}
bool diag_grad(Call& call) {
  const DenseTensor* grad = call.input(1);
  if (!supports_shape(grad) || !can_copy(call) || grad->numel() == 0 || call.input(0)->dims().size() == 0) return false;
  const View from = call.view_of(1), out = call.allocate(0);
  if (out.ndim == 1) return copy_to(call, out, diagonal_of(from, call.integer(0), 0, 1)) && count_decomposed(call);
  return zero(call.device, out) && copy_to(call, diagonal_of(out, call.integer(0), 0, 1), from) &&
         count_decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/shape.inc"
