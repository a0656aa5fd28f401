// Operators that put elements elsewhere: joins, turns, and copies between parts of tensors.
#include "../../ops/shape.h"

#include "../../ops/reduction.h"
#include "../parts.h"
#include "../slices.h"

namespace hp::paddle_adapter::ops {
namespace {

Step copying("copy");

bool copied(Call& call, const View& to, const View& from) {
  return copy(copying.on(call.device), call.device, to, from);
}

bool known(const DenseTensor* tensor) {
  return tensor != nullptr && to_core(tensor->dtype()) != DType::kNone && tensor->dims().size() <= kMaxDimensions &&
         (tensor->numel() == 0 || (tensor->initialized() && on_device(*tensor)));
}
bool known(List<const DenseTensor> tensors) {
  for (const DenseTensor* tensor : tensors) {
    if (!known(tensor)) return false;
  }
  return true;
}
// Whether the device copies at all; asked before anything is written.
bool able(const Call& call) { return copying.on(call.device).able() && to_core(call.kernel.dtype) != DType::kNone; }

int64_t wrapped(int64_t dim, int64_t ndim) { return dim < 0 ? dim + ndim : dim; }

// ---- Joins

bool join(Call& call, List<const DenseTensor> given, int64_t dim, bool stacked) {
  if (!known(given) || !call.service().able()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  std::vector<Shaped> parts;
  parts.reserve(given.count);
  for (const DenseTensor* tensor : given) {
    if (tensor->numel() == 0) continue;
    parts.emplace_back(view(*tensor));
    if (stacked) parts.back().unsqueeze(static_cast<int>(dim));
  }
  const std::vector<View> views(parts.begin(), parts.end());
  return hp::ops::cat(call.service(), call.device, out, views.data(), static_cast<int64_t>(views.size()), dim);
}
bool concat(Call& call) {
  return join(call, call.inputs(0), wrapped(call.integer(0), call.output(0)->dims().size()), false);
}
bool stack(Call& call) {
  return join(call, call.inputs(0), wrapped(call.integer(0), call.output(0)->dims().size()), true);
}
bool unstack_grad(Call& call) { return stack(call); }

// Each output is a part of `from`, one after another along a dimension; some may not be wanted.
bool apart(Call& call, const DenseTensor* from, List<DenseTensor> outs, int64_t dim, bool stacked,
           List<const DenseTensor> sizes = {}) {
  if (!known(from) || !able(call)) return false;
  const View whole = view(*from);
  int64_t at = 0;
  for (int k = 0; k < outs.count; ++k) {
    const int64_t length = stacked ? 1 : sizes.count != 0 ? sizes[k]->dims()[dim] : outs[k]->dims()[dim];
    if (outs[k] != nullptr) {
      const View out = call.allocate(*outs[k]);
      if (outs[k]->numel() != 0) {
        Shaped part(whole);
        part.narrow(static_cast<int>(dim), at, length);
        if (stacked) part.drop(static_cast<int>(dim));
        if (!copied(call, out, part)) return false;
      }
    }
    at += length;
  }
  return decomposed(call);
}
bool concat_grad(Call& call) {
  const int ndim = call.input(1)->dims().size();
  return apart(call, call.input(1), call.outputs(0), wrapped(call.integer(0), ndim), false, call.inputs(0));
}
// Attributes: sections, axis. The outputs' sizes are settled.
bool split(Call& call) {
  return apart(call, call.input(0), call.outputs(0), wrapped(call.integer(1), call.input(0)->dims().size()), false);
}
bool split_with_num(Call& call) { return split(call); }
bool unstack(Call& call) {
  return apart(call, call.input(0), call.outputs(0), wrapped(call.integer(0), call.input(0)->dims().size()), true);
}
bool unbind(Call& call) { return unstack(call); }
bool stack_grad(Call& call) { return unstack(call); }

// ---- Turns

bool flip(Call& call) {
  if (!known(call.input(0)) || !call.service().able()) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  std::vector<int64_t> dims = call.integers(0);
  for (int64_t& dim : dims) dim = wrapped(dim, x.ndim);
  return hp::ops::flip(call.service(), call.device, out, x, dims.data(), static_cast<int64_t>(dims.size()));
}
bool reverse(Call& call) { return flip(call); }

// Without dimensions, over all elements in a row.
bool rolled(Call& call, const DenseTensor* from, int64_t sign) {
  if (!known(from) || !call.service().able()) return false;
  const std::vector<int64_t> shifts = call.integers(0), dims = call.integers(1);
  const View x = view(*from), out = call.allocate(0);
  if (out.numel() == 0) return true;
  const int64_t all[] = {x.numel()};
  Shaped self(x), result(out);
  if (dims.empty()) self = Shaped(x.data, x.dtype, 1, all), result = Shaped(out.data, out.dtype, 1, all);
  std::array<int64_t, kMaxDimensions> wanted{};
  for (size_t k = 0; k < shifts.size(); ++k) {
    const int64_t d = dims.empty() ? 0 : wrapped(dims[k], x.ndim), size = self.size(static_cast<int>(d));
    wanted[d] = ((wanted[d] + sign * shifts[k]) % size + size) % size;
  }
  return hp::ops::roll(call.service(), call.device, result, self, wanted.data());
}
bool roll(Call& call) { return rolled(call, call.input(0), 1); }
bool roll_grad(Call& call) { return rolled(call, call.input(1), -1); }

// Input: the tensor or the gradient; attribute: the diagonal.
bool triangle(Call& call, const Service& service, bool lower) {
  if (!known(call.input(0)) || !service.able() || call.input(0)->dims().size() < 2) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  if (out.numel() == 0) return true;
  return (lower ? hp::ops::tril : hp::ops::triu)(service, call.device, out, x, call.integer(0));
}
bool tril(Call& call) { return triangle(call, call.service(), true); }
bool triu(Call& call) { return triangle(call, call.service(), false); }
bool tril_grad(Call& call) { return tril(call); }
bool triu_grad(Call& call) { return triu(call); }
bool tril_triu(Call& call) {
  static Step lower("tril"), upper("triu");
  const bool below = call.attr<bool>(1);
  return triangle(call, (below ? lower : upper).on(call.device), below) && decomposed(call);
}
bool tril_triu_grad(Call& call) { return tril_triu(call); }

// ---- Dimensions in another order

Shaped permuted(const View& x, const std::vector<int64_t>& axis, bool back) {
  Shaped made(x);
  for (int d = 0; d < x.ndim; ++d) {
    const int from = static_cast<int>(wrapped(axis[d], x.ndim));
    made.size(back ? from : d) = x.sizes[back ? d : from];
    made.stride(back ? from : d) = x.strides[back ? d : from];
  }
  return made;
}
bool transposed(Call& call, bool back) {
  if (!known(call.input(0)) || !able(call)) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return (out.numel() == 0 || copied(call, out, permuted(x, call.integers(0), back))) && decomposed(call);
}
bool transpose(Call& call) { return transposed(call, false); }
bool transpose_grad(Call& call) { return transposed(call, true); }

// ---- Parts

// Inputs: x, or the gradient of a part. Attributes from `first` on: axes, starts, ends.
bool slice(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!known(x) || !able(call)) return false;
  const Slices slices(call.integers(0), call.integers(1), call.integers(2), {});
  Shaped part(view(*x));
  if (x->numel() == 0 || !slices.apply(part, call.integers(4)) || !slices.fits(part, *call.output(0))) return false;
  const View out = call.allocate(0);
  return copied(call, out, part) && decomposed(call);
}
bool strided_slice(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!known(x) || !able(call)) return false;
  const Slices slices(call.integers(0), call.integers(1), call.integers(2), call.integers(3));
  Shaped part(view(*x));
  if (x->numel() == 0 || !slices.apply(part, {}) || !slices.fits(part, *call.output(0))) return false;
  const View out = call.allocate(0);
  return copied(call, out, part) && decomposed(call);
}

// Zeros, and the gradient in the part that it belongs to.
bool part_grad(Call& call, const Slices& slices, const std::vector<int64_t>& dropped) {
  if (!known(call.input(1)) || !able(call) || call.input(0)->dims().size() > kMaxDimensions ||
      call.output(0)->numel() == 0) {
    return false;
  }
  const int64_t* sizes = call.output(0)->dims().Get();
  Shaped trial(nullptr, to_core(call.kernel.dtype), call.output(0)->dims().size(), sizes);
  if (!slices.apply(trial, dropped) || !slices.fits(trial, *call.input(1))) return false;
  const View out = call.allocate(0);
  Shaped part(out);
  slices.apply(part, dropped);
  return zero(call.device, out) && (call.input(1)->numel() == 0 || copied(call, part, call.view_of(1))) &&
         decomposed(call);
}
bool slice_grad(Call& call) {
  return part_grad(call, Slices(call.integers(0), call.integers(1), call.integers(2), {}), call.integers(4));
}
bool strided_slice_grad(Call& call) {
  return part_grad(call, Slices(call.integers(0), call.integers(1), call.integers(2), call.integers(3)), {});
}

// ---- Values for a part. Attributes: starts, ends, steps, axes, decrease_axes, none_axes.

struct Target {
  Target(const Call& call)
      : slices(call.integers(3), call.integers(0), call.integers(1), call.integers(2)), dropped(call.integers(4)) {}
  Slices slices;
  std::vector<int64_t> dropped;
};

// The output with what the input has, if it is not the input itself.
bool carried(Call& call, const DenseTensor& x, View& out) {
  const DenseTensor before = x;
  out = call.allocate(0);
  return out.data == before.data() || copied(call, out, view(before));
}

// Whether a tensor of those sizes can be spread over a part.
bool spreadable(const View& value, const View& part) {
  for (int d = 0; d < value.ndim; ++d) {
    const int k = part.ndim - value.ndim + d;
    if (k < 0 ? value.sizes[d] != 1 : value.sizes[d] != 1 && value.sizes[d] != part.sizes[k]) return false;
  }
  return true;
}
// A value with no more dimensions than the part.
Shaped spread(const View& value, const View& part) {
  Shaped made(value);
  while (made.ndim() > part.ndim) made.drop(0);
  return made.expand(part.ndim, part.sizes);
}

bool set_value_with_tensor(Call& call) {
  const DenseTensor &x = *call.input(0), &value = *call.input(1);
  if (!known(&x) || !known(&value) || !able(call) || x.numel() == 0 || value.numel() == 0 || !call.integers(5).empty())
    return false;
  const Target target(call);
  Shaped trial(view(x));
  if (!target.slices.apply(trial, target.dropped) || !spreadable(view(value), trial)) return false;
  View out;
  if (!carried(call, x, out)) return false;
  Shaped part(out);
  target.slices.apply(part, target.dropped);
  return (part.view().numel() == 0 || copied(call, part, spread(view(value), part))) && decomposed(call);
}

// One number for the whole part; several go to the CPU tier.
bool set_value(Call& call) {
  const DenseTensor& x = *call.input(0);
  const auto& values = call.attr<std::vector<phi::Scalar>>(7);
  if (!known(&x) || !able(call) || x.numel() == 0 || values.size() != 1 || !call.integers(5).empty() ||
      is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const Target target(call);
  Shaped trial(view(x));
  if (!target.slices.apply(trial, target.dropped)) return false;
  View out;
  if (!carried(call, x, out)) return false;
  Shaped part(out);
  target.slices.apply(part, target.dropped);
  if (part.view().numel() == 0) return decomposed(call);
  static PointwiseStep scale("scale");
  const bool whole = is_integer(part.view().dtype) || part.view().dtype == DType::kBool;
  const Temporary one(call.device, whole ? DType::kI64 : DType::kF64, 0, nullptr);
  return zero(call.device, one) &&
         scale(call.device, one, {one},
               {0, whole ? static_cast<double>(values[0].to<int64_t>()) : values[0].to<double>()}, 1) &&
         copied(call, part, spread(one, part)) && decomposed(call);
}

bool set_value_grads(Call& call, bool of_value) {
  const DenseTensor& grad = *call.input(0);
  if (!known(&grad) || !able(call) || grad.numel() == 0 || !call.integers(5).empty()) return false;
  const Target target(call);
  Shaped trial(view(grad));
  if (!target.slices.apply(trial, target.dropped)) return false;
  if (of_value && call.output(1) != nullptr) {
    const View out = call.allocate(1);
    Shaped result(out);
    while (result.ndim() > trial.ndim()) result.drop(0);
    if (trial.view().numel() == 0 ? !zero(call.device, out) : !sum_to(call.device, result, trial)) return false;
  }
  if (call.output(0) != nullptr) {
    View out;
    if (!carried(call, grad, out)) return false;
    Shaped part(out);
    target.slices.apply(part, target.dropped);
    if (part.view().numel() != 0 && !zero(call.device, part)) return false;
  }
  return decomposed(call);
}
bool set_value_grad(Call& call) { return set_value_grads(call, true); }
bool set_value_with_scalar_grad(Call& call) { return set_value_grads(call, false); }

// ---- Repeats

// x and its repeats, seen with a dimension for each: (times, size) for every one that is repeated. False where these
// are too many.
struct Tiling {
  Tiling(const View& x, const View& out) {
    const int missing = out.ndim - x.ndim;
    int64_t step = out.numel();
    for (int d = 0; d < out.ndim; ++d) {
      const int64_t size = d < missing ? 1 : x.sizes[d - missing];
      if (size == 0) continue;
      const int64_t times = out.sizes[d] / size;
      step /= out.sizes[d];
      if (times != 1 || size == 1) add(times, 0, step * size, true);
      if (size != 1) add(size, x.strides[d - missing], step, false);
    }
    // What has one element throughout needs no dimension; there may be none at all then.
  }
  void add(int64_t size, int64_t of_x, int64_t of_out, bool repeated) {
    if (ndim == kMaxDimensions) {
      fits = false;
      return;
    }
    if (repeated) mask |= uint64_t{1} << ndim;
    sizes[ndim] = size, small[ndim] = of_x, large[ndim++] = of_out;
  }
  View narrow(const View& x) const { return {x.data, x.dtype, ndim, sizes.data(), small.data()}; }
  View wide(const View& out) const { return {out.data, out.dtype, ndim, sizes.data(), large.data()}; }
  bool fits = true;
  int ndim = 0;
  uint64_t mask = 0;
  std::array<int64_t, kMaxDimensions> sizes{}, small{}, large{};
};

bool tile(Call& call) {
  if (!known(call.input(0)) || !able(call) || call.output(0)->dims().size() > kMaxDimensions ||
      call.input(0)->numel() == 0 || call.output(0)->numel() == 0) {
    return false;
  }
  const View x = call.view_of(0), out = call.allocate(0);
  const Tiling tiling(x, out);
  return tiling.fits && copied(call, tiling.wide(out), tiling.narrow(x)) && decomposed(call);
}
bool tile_grad(Call& call) {
  static Step sum("sum");
  if (!known(call.input(1)) || !able(call) || call.input(0)->dims().size() > kMaxDimensions ||
      call.input(1)->numel() == 0 || is_complex(to_core(call.kernel.dtype))) {
    return false;
  }
  const View out = call.allocate(0), grad = call.view_of(1);
  const Tiling tiling(out, grad);
  if (!tiling.fits) return false;
  if (tiling.mask == 0)
    return copied(call, out, Shaped(grad.data, grad.dtype, out.ndim, out.sizes)) && decomposed(call);
  View target = tiling.narrow(out);
  std::array<int64_t, kMaxDimensions> kept = tiling.sizes;
  for (int d = 0; d < target.ndim; ++d) {
    if (tiling.mask >> d & 1) kept[d] = 1;
  }
  target.sizes = kept.data();
  return hp::ops::sum(sum.on(call.device), call.device, target, tiling.wide(grad), tiling.mask, true) &&
         decomposed(call);
}

bool expand_to(Call& call, const View& out, const View& x) {
  Shaped from(x);
  return out.numel() == 0 || copied(call, out, from.expand(out.ndim, out.sizes));
}
bool expand(Call& call) {
  if (!known(call.input(0)) || !able(call) || call.output(0)->dims().size() > kMaxDimensions ||
      common::product(call.output(0)->dims()) < 0) {
    return false;
  }
  return expand_to(call, call.allocate(0), call.view_of(0)) && decomposed(call);
}
bool expand_as(Call& call) { return expand(call); }
// Input 1 is the gradient.
bool expand_grad(Call& call) {
  if (!known(call.input(1)) || !able(call) || call.input(1)->numel() == 0 ||
      (is_complex(to_core(call.kernel.dtype)) && call.output(0)->numel() != call.input(1)->numel())) {
    return false;
  }
  return sum_to(call.device, call.allocate(0), call.view_of(1)) && decomposed(call);
}
bool expand_as_grad(Call& call) { return expand_grad(call); }

bool broadcast_tensors(Call& call) {
  if (!known(call.inputs(0)) || !able(call)) return false;
  for (int k = 0; k < call.inputs(0).count; ++k) {
    if (!expand_to(call, call.allocate(*call.outputs(0)[k]), view(*call.inputs(0)[k]))) return false;
  }
  return decomposed(call);
}
bool broadcast_tensors_grad(Call& call) {
  if (!known(call.inputs(1)) || !able(call) || is_complex(to_core(call.kernel.dtype))) return false;
  for (int k = 0; k < call.inputs(1).count; ++k) {
    if (call.inputs(1)[k]->numel() == 0) return false;
  }
  for (int k = 0; k < call.outputs(0).count; ++k) {
    DenseTensor* wanted = call.outputs(0)[k];
    if (wanted != nullptr && !sum_to(call.device, call.allocate(*wanted), view(*call.inputs(1)[k]))) return false;
  }
  return decomposed(call);
}

// A vector as the k-th of several dimensions.
Shaped along(const View& vector, int k, int ndim) {
  std::array<int64_t, kMaxDimensions> sizes;
  sizes.fill(1);
  sizes[k] = vector.numel();
  return Shaped(vector.data, vector.dtype, ndim, sizes.data());
}
bool meshgrid(Call& call) {
  const auto given = call.inputs(0);
  if (!known(given) || !able(call) || given.count > kMaxDimensions) return false;
  for (int k = 0; k < given.count; ++k) {
    const View out = call.allocate(*call.outputs(0)[k]);
    if (!expand_to(call, out, along(view(*given[k]), k, out.ndim))) return false;
  }
  return decomposed(call);
}
bool meshgrid_grad(Call& call) {
  const auto grads = call.inputs(1);
  if (!known(grads) || !able(call) || grads.count > kMaxDimensions || is_complex(to_core(call.kernel.dtype)))
    return false;
  for (int k = 0; k < grads.count; ++k) {
    if (grads[k]->numel() == 0) return false;
  }
  for (int k = 0; k < call.outputs(0).count; ++k) {
    DenseTensor* wanted = call.outputs(0)[k];
    if (wanted == nullptr) continue;
    const View grad = view(*grads[k]);
    if (!sum_to(call.device, along(call.allocate(*wanted), k, grad.ndim), grad)) return false;
  }
  return decomposed(call);
}

// Each slice several times in a row. Attributes: repeats, dim.
bool repeat_interleave(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!known(x) || !able(call) || x->numel() == 0 || x->dims().size() >= kMaxDimensions) return false;
  const int64_t times = call.integer(0);
  const int dim = static_cast<int>(wrapped(call.integer(1), x->dims().size()));
  if (times <= 0 || x->dims().size() == 0 || call.output(0)->dims()[dim] != times * x->dims()[dim]) return false;
  const View from = call.view_of(0), out = call.allocate(0);
  Shaped many(from);
  many.unsqueeze(dim + 1);
  many.size(dim + 1) = times;
  return copied(call, Shaped(out.data, out.dtype, many.ndim(), many.view().sizes), many) && decomposed(call);
}

// ---- Diagonals

// The diagonal of two dimensions, as the last one.
Shaped diagonal_of(const View& x, int64_t offset, int a, int b) {
  Shaped made(x);
  const int64_t rows = x.sizes[a], columns = x.sizes[b], down = offset < 0 ? -offset : 0,
                right = offset > 0 ? offset : 0;
  const int64_t length = std::max<int64_t>(0, std::min(rows - down, columns - right));
  made.set_data(static_cast<char*>(x.data) + (down * x.strides[a] + right * x.strides[b]) * info(x.dtype).bytes);
  const int64_t step = x.strides[a] + x.strides[b];
  made.drop(std::max(a, b)).drop(std::min(a, b));
  made.unsqueeze(made.ndim());
  made.size(made.ndim() - 1) = length;
  made.stride(made.ndim() - 1) = step;
  return made;
}
Shaped diagonal_of(const Call& call, const View& x) {
  return diagonal_of(x, call.integer(0), static_cast<int>(wrapped(call.integer(1), x.ndim)),
                     static_cast<int>(wrapped(call.integer(2), x.ndim)));
}

// Attributes: offset, axis1, axis2.
bool diagonal(Call& call) {
  if (!known(call.input(0)) || !able(call) || call.input(0)->numel() == 0) return false;
  const View x = call.view_of(0), out = call.allocate(0);
  return (out.numel() == 0 || copied(call, out, diagonal_of(call, x))) && decomposed(call);
}
bool diagonal_grad(Call& call) {
  if (!known(call.input(1)) || !able(call) || call.input(0)->dims().size() > kMaxDimensions) return false;
  const View out = call.allocate(0);
  return zero(call.device, out) &&
         (call.input(1)->numel() == 0 || copied(call, diagonal_of(call, out), call.view_of(1))) && decomposed(call);
}
bool trace(Call& call) {
  static Step sum("sum");
  if (!known(call.input(0)) || !able(call) || call.input(0)->numel() == 0 || is_complex(to_core(call.kernel.dtype)))
    return false;
  const View out = call.allocate(0);
  const Shaped part = diagonal_of(call, call.view_of(0));
  const int last = part.view().ndim - 1;
  if (part.view().numel() == 0) return zero(call.device, out) && decomposed(call);
  return hp::ops::sum(sum.on(call.device), call.device, out, part, uint64_t{1} << last, false) && decomposed(call);
}

// A matrix with the vector on its diagonal, or the diagonal of a matrix. Attributes: offset, padding_value.
bool diag(Call& call) {
  const DenseTensor* x = call.input(0);
  if (!known(x) || !able(call) || x->numel() == 0) return false;
  const View from = call.view_of(0);
  const bool grows = from.ndim < 2;
  if (grows && call.real(1) != 0) return false;
  const View out = call.allocate(0);
  if (!grows)
    return (out.numel() == 0 || copied(call, out, diagonal_of(from, call.integer(0), 0, 1))) && decomposed(call);
  const int64_t length[] = {from.numel()};
  return zero(call.device, out) &&
         copied(call, diagonal_of(out, call.integer(0), 0, 1), Shaped(from.data, from.dtype, 1, length)) &&
         decomposed(call);
}
bool diag_grad(Call& call) {
  const DenseTensor* grad = call.input(1);
  if (!known(grad) || !able(call) || grad->numel() == 0 || call.input(0)->dims().size() == 0) return false;
  const View from = call.view_of(1), out = call.allocate(0);
  if (out.ndim == 1) return copied(call, out, diagonal_of(from, call.integer(0), 0, 1)) && decomposed(call);
  return zero(call.device, out) && copied(call, diagonal_of(out, call.integer(0), 0, 1), from) && decomposed(call);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/shape.inc"
