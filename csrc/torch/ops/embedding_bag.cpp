#include "ops/indexing.h"

#include <ATen/ops/_embedding_bag_dense_backward.h>
#include <ATen/ops/add.h>
#include <ATen/ops/div.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

constexpr int64_t kMean = 1, kMax = 2;

bool present(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

Tensor zero_like(const Tensor& tensor) { return at::zeros({}, tensor.options()); }

using Bags = std::tuple<Tensor, Tensor, Tensor, Tensor>;

std::optional<Bags> embedding_bag(const Overload& overload, const Tensor& weight, const Tensor& given_indices,
                                  const Tensor& given_offsets, bool /*scale_grad_by_freq*/, int64_t mode,
                                  bool /*sparse*/, const OptionalTensor& per_sample_weights, bool include_last_offset,
                                  int64_t padding_idx) {
  const auto is_index = [](const Tensor& t) { return t.scalar_type() == at::kLong || t.scalar_type() == at::kInt; };
  if (weight.dim() != 2 || given_indices.dim() != 1 || given_offsets.dim() != 1 || !is_index(given_indices) ||
      !is_index(given_offsets) || !is_float(to_core(weight.scalar_type())) || mode < 0 || mode > kMax ||
      (include_last_offset && given_offsets.numel() == 0))
    return std::nullopt;
  if (present(per_sample_weights) && (mode != 0 || per_sample_weights->scalar_type() != weight.scalar_type() ||
                                      per_sample_weights->sizes() != given_indices.sizes()))
    return std::nullopt;
  if (padding_idx < -1) padding_idx += weight.size(0);
  const at::ScalarType dtype =
      given_indices.scalar_type() == given_offsets.scalar_type() ? given_indices.scalar_type() : at::kLong;
  const Tensor indices = given_indices.to(dtype).contiguous(), offsets = given_offsets.to(dtype).contiguous(),
               rows = weight.contiguous(),
               samples = present(per_sample_weights) ? per_sample_weights->contiguous() : Tensor();
  const int64_t bags = offsets.numel() - (include_last_offset ? 1 : 0), width = weight.size(1);
  const int index = weight.device().index();
  Tensor out = empty({bags, width}, weight.scalar_type(), index);
  Tensor bag_of = empty(indices.sizes(), dtype, index), sizes = empty({bags}, dtype, index);
  Tensor chosen = mode == kMax ? empty({bags, width}, dtype, index) : at::zeros({bags}, indices.options());
  if (bags > 0 && !hp::ops::embedding_bag(overload, device_holding(weight), view(out), view(bag_of), view(sizes),
                                          mode == kMax ? view(chosen) : View{}, view(rows), view(indices),
                                          view(offsets), view(samples), mode, padding_idx))
    return std::nullopt;
  return Bags(std::move(out), std::move(bag_of), std::move(sizes), std::move(chosen));
}

// Spreads the gradient over the indices, then computes the gradient of an embedding.
std::optional<Tensor> embedding_bag_backward(const Overload& overload, const Tensor& grad, const Tensor& indices,
                                             const Tensor& offset2bag, const Tensor& bag_size,
                                             const Tensor& maximum_indices, int64_t num_weights,
                                             bool scale_grad_by_freq, int64_t mode,
                                             const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  if (!is_float(to_core(grad.scalar_type())) || offset2bag.numel() != indices.numel()) return std::nullopt;
  Tensor out;
  if (mode == kMax) {
    const Tensor filled = at::gt(bag_size, 0).unsqueeze(1);
    out = at::zeros({num_weights, grad.size(1)}, grad.options());
    if (num_weights > 0) {
      const Tensor rows = at::where(filled, maximum_indices, zero_like(maximum_indices));
      out.scatter_add_(0, rows.to(at::kLong), at::where(filled, grad, zero_like(grad)));
    }
  } else {
    Tensor spread = at::index_select(grad, 0, offset2bag);
    if (mode == kMean) spread = at::div(spread, at::index_select(bag_size, 0, offset2bag).unsqueeze(1));
    if (present(per_sample_weights)) spread = at::mul(spread, per_sample_weights->unsqueeze(1));
    out = at::embedding_dense_backward(spread, indices, num_weights, padding_idx, scale_grad_by_freq);
  }
  overload.op.count(Tier::kDecomposition);
  return out;
}

std::optional<Tensor> embedding_bag_backward(const Overload& overload, const Tensor& grad, const Tensor& indices,
                                             const Tensor& /*offsets*/, const Tensor& offset2bag,
                                             const Tensor& bag_size, const Tensor& maximum_indices, int64_t num_weights,
                                             bool scale_grad_by_freq, int64_t mode, bool sparse,
                                             const OptionalTensor& per_sample_weights, int64_t padding_idx) {
  if (sparse) return std::nullopt;
  return embedding_bag_backward(overload, grad, indices, offset2bag, bag_size, maximum_indices, num_weights,
                                scale_grad_by_freq, mode, per_sample_weights, padding_idx);
}

std::optional<Tensor> embedding_bag_per_sample_weights_backward(const Overload& overload, const Tensor& grad,
                                                                const Tensor& weight, const Tensor& indices,
                                                                const Tensor& /*offsets*/, const Tensor& offset2bag,
                                                                int64_t mode, int64_t padding_idx) {
  if (mode != 0 || offset2bag.numel() != indices.numel()) return std::nullopt;
  Tensor out = at::sum(at::mul(at::index_select(grad, 0, offset2bag), at::index_select(weight, 0, indices)), 1);
  if (padding_idx >= 0) out = at::where(at::eq(indices, padding_idx), zero_like(out), out);
  overload.op.count(Tier::kDecomposition);
  return out;
}

// A row that several indices name is written several times, with the same values.
bool embedding_renorm(const Overload& overload, const Tensor& self, const Tensor& indices, double max_norm,
                      double norm_type) {
  if (self.dim() != 2 || norm_type <= 0 || std::isinf(norm_type) || !is_float(to_core(self.scalar_type())) ||
      (indices.scalar_type() != at::kLong && indices.scalar_type() != at::kInt))
    return false;
  if (indices.numel() == 0) return true;
  const Tensor flat_indices = indices.reshape(-1).to(at::kLong), rows = at::index_select(self, 0, flat_indices);
  const Tensor norms = norm_type == 2 ? at::sqrt(at::sum(at::mul(rows, rows), 1))
                                      : at::pow(at::sum(at::pow(rows.abs(), norm_type), 1), 1 / norm_type);
  const Tensor scales =
      at::where(at::gt(norms, max_norm), at::div(at::full({}, max_norm, norms.options()), at::add(norms, 1e-7)),
                at::full({}, 1, norms.options()));
  self.index_copy_(0, flat_indices, at::mul(rows, scales.unsqueeze(1)));
  overload.op.count(Tier::kDecomposition);
  return true;
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/embedding_bag.inc"
