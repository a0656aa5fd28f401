// Unique slices, composed of other operators on the device.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/any.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/diff.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scatter.h>
#include <ATen/ops/sort.h>

#include <algorithm>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

// Slices are sorted column by column; with more columns the CPU is as fast.
constexpr int64_t kMaxColumns = 256;

using UniqueSlices = std::optional<std::tuple<Tensor, Tensor, Tensor>>;

bool takes_slices(const Tensor& self, int64_t dim) {
  return to_core(self.scalar_type()) != DType::kNone && !self.is_complex() && self.dim() > 0 && dim >= -self.dim() &&
         dim < self.dim() && std::count(self.sizes().begin(), self.sizes().end(), 0) == (self.size(dim) == 0 ? 1 : 0);
}

// The result if there are no slices.
UniqueSlices none(const Overload& overload, const Tensor& self) {
  overload.op.count(Tier::kDecomposition);
  const Tensor empties = empty({0}, at::kLong, self.device().index());
  return std::make_tuple(self.clone(), empties, empties.clone());
}

// `rows` are the slices, with equal ones adjacent; `order` has their original positions, if they were sorted.
UniqueSlices runs(const Overload& overload, const Tensor& self, int64_t dim, const Tensor& rows, const Tensor& order) {
  const int64_t n = rows.size(0);
  Tensor starts = at::ones({1}, rows.options().dtype(at::kBool));
  if (n > 1) starts = at::cat({starts, at::any(at::ne(rows.narrow(0, 1, n - 1), rows.narrow(0, 0, n - 1)), 1)});
  const Tensor run = at::cumsum(starts, 0).sub_(1), run_starts = at::nonzero(starts).view({-1});
  const Tensor ends = at::cat({run_starts, at::full({1}, n, run_starts.options())});
  Tensor out = at::index_select(self, dim, order.defined() ? at::index_select(order, 0, run_starts) : run_starts);
  Tensor inverse = order.defined() ? at::scatter(at::empty_like(run), 0, order, run) : run;
  overload.op.count(Tier::kDecomposition);
  return std::make_tuple(std::move(out), std::move(inverse), at::diff(ends));
}

// One slice per row.
Tensor slices(const Tensor& self, int64_t dim) { return self.movedim(dim, 0).contiguous().view({self.size(dim), -1}); }

UniqueSlices unique_dim(const Overload& overload, const Tensor& self, int64_t dim, bool /*sorted*/,
                        bool /*return_inverse*/, bool /*return_counts*/) {
  if (!takes_slices(self, dim)) return {};
  if (self.numel() == 0) return none(overload, self);
  dim = at::maybe_wrap_dim(dim, self.dim());
  const Tensor rows = slices(self, dim);
  if (rows.size(1) > kMaxColumns) return {};
  Tensor order = at::arange(rows.size(0), rows.options().dtype(at::kLong));
  for (int64_t column = rows.size(1) - 1; column >= 0; --column) {
    const Tensor keys = at::index_select(rows.select(1, column), 0, order);
    order = at::index_select(order, 0, std::get<1>(at::sort(keys, /*stable=*/true, 0, false)));
  }
  return runs(overload, self, dim, at::index_select(rows, 0, order), order);
}

UniqueSlices unique_dim_consecutive(const Overload& overload, const Tensor& self, int64_t dim, bool /*return_inverse*/,
                                    bool /*return_counts*/) {
  if (!takes_slices(self, dim)) return {};
  if (self.numel() == 0) return none(overload, self);
  dim = at::maybe_wrap_dim(dim, self.dim());
  return runs(overload, self, dim, slices(self, dim), Tensor());
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/unique.inc"
