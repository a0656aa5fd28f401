#include "ops/attention.h"

#include <ATen/Context.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <limits>

#include "ops/op_helpers.h"
#include "runtime/generator.h"

namespace hp::torch_adapter::ops {
namespace {

using Forward = std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;
using Backward = std::tuple<Tensor, Tensor, Tensor, Tensor>;

bool fits(const Tensor& query, const Tensor& key, const Tensor& value) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || !at::isFloatingType(query.scalar_type())) return false;
  if (key.scalar_type() != query.scalar_type() || value.scalar_type() != query.scalar_type()) return false;
  if (query.size(0) != key.size(0) || query.size(0) != value.size(0)) return false;
  if (key.size(1) == 0 || key.size(1) != value.size(1) || query.size(1) % key.size(1) != 0) return false;
  return query.size(3) == key.size(3) && key.size(2) == value.size(2) && query.numel() != 0 && key.numel() != 0 &&
         value.numel() != 0 && std::max(query.size(3), value.size(3)) <= hp::ops::kMaxHeadDim;
}

// Whether the fused kernels take the mask. They compute no gradient of it, and torch's `math` raises the error for one
// beside `causal`.
bool fits_mask(const OptionalTensor& mask, bool causal) {
  return !mask || !mask->defined() || !(causal || mask->requires_grad() || mask->dim() > 4);
}

bool enabled(at::SDPBackend backend) {
  const at::Context& context = at::globalContext();
  switch (backend) {
    case at::SDPBackend::math:
      return context.userEnabledMathSDP();
    case at::SDPBackend::flash_attention:
      return context.userEnabledFlashSDP();
    case at::SDPBackend::efficient_attention:
      return context.userEnabledMemEfficientSDP();
    case at::SDPBackend::cudnn_attention:
      return context.userEnabledCuDNNSDP();
    case at::SDPBackend::overrideable:
      return context.userEnabledOverrideableSDP();
    default:
      return false;
  }
}

// The first implementation in the user's order (torch.nn.attention.sdpa_kernel) that takes the call: `math` (matrix
// products), or the fused kernels, which stand for all others. Without fused kernels there is no choice.
int64_t first_enabled(bool have_fused, bool fits_fused) {
  if (!have_fused) return static_cast<int64_t>(at::SDPBackend::math);
  for (const at::SDPBackend backend : at::globalContext().sDPPriorityOrder()) {
    const bool math = backend == at::SDPBackend::math;
    if (!enabled(backend) || (!math && !fits_fused)) continue;
    return static_cast<int64_t>(math ? backend : at::SDPBackend::overrideable);
  }
  return static_cast<int64_t>(at::SDPBackend::error);
}

std::optional<int64_t> attention(const Overload& overload, const Tensor& query, const Tensor& key, const Tensor& value,
                                 const OptionalTensor& mask, double dropout, bool causal,
                                 std::optional<double> /*scale*/, bool grouped) {
  return first_enabled(overload.can_serve(), fits(query, key, value) && dropout >= 0 && dropout <= 1 &&
                                                 (grouped || query.size(1) == key.size(1)) && fits_mask(mask, causal));
}

Tensor rows_contiguous(const Tensor& tensor) { return tensor.stride(-1) == 1 ? tensor : tensor.contiguous(); }

// Operands in the kernels' layout, owned for the duration of the call.
struct Operands {
  Operands(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask)
      : query(rows_contiguous(query)), key(rows_contiguous(key)), value(rows_contiguous(value)) {
    if (!mask.defined()) return;
    Tensor additive = mask;
    if (mask.scalar_type() == at::kBool) additive = at::where(mask, 0.0, -std::numeric_limits<double>::infinity());
    this->mask = additive.to(query.scalar_type()).expand({query.size(0), query.size(1), query.size(2), key.size(2)});
  }
  hp::ops::AttentionArgs attention(bool causal, std::optional<double> scale, double dropout) const {
    const double usual = 1.0 / std::sqrt(static_cast<double>(query.size(3)));
    return {view(query), view(key), view(value), view(mask), causal, scale.value_or(usual), dropout};
  }
  Tensor query, key, value, mask;
};

std::optional<Forward> attention(const Overload& overload, const Tensor& query, const Tensor& key, const Tensor& value,
                                 const OptionalTensor& mask, double dropout, bool causal, bool /*debug*/,
                                 std::optional<double> scale) {
  TORCH_CHECK(fits(query, key, value) && dropout >= 0 && dropout <= 1,
              "fused attention needs 4-dimensional query, key and value of one floating-point dtype, up to ",
              hp::ops::kMaxHeadDim, " elements per head, and dropout from 0 to 1; got query ", query.sizes(), ", key ",
              key.sizes(), ", value ", value.sizes(), " and dropout ", dropout);
  const Operands operands(query, key, value, mask.value_or(Tensor()));
  const int64_t batch = query.size(0), heads = query.size(1), queries = query.size(2);
  const int index = query.device().index();
  const at::ScalarType sums = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  // Heads are the second-last dimension in memory, as the next operator usually needs them.
  const Tensor out = empty({batch, queries, heads, value.size(3)}, query.scalar_type(), index).transpose(1, 2);
  const Tensor lse = empty({batch, heads, queries}, sums, index);
  hp::ops::AttentionArgs args = operands.attention(causal, scale, dropout);
  Tensor seed, offset;  // on the CPU, for the backward pass to read them without waiting for the device
  if (dropout != 0) {
    args.random = take_blocks(std::nullopt, index, hp::ops::dropout_blocks(args));
    seed = at::scalar_tensor(static_cast<int64_t>(args.random.seed), at::kLong);
    offset = at::scalar_tensor(static_cast<int64_t>(args.random.offset), at::kLong);
  }
  if (!hp::ops::attention(overload, device_holding(query), view(out), view(lse), args)) return std::nullopt;
  return Forward(out, lse, Tensor(), Tensor(), queries, key.size(2), seed, offset, Tensor());
}

std::optional<Backward> attention_backward(const Overload& overload, const Tensor& grad, const Tensor& query,
                                           const Tensor& key, const Tensor& value, const Tensor& mask,
                                           std::array<bool, 4> wanted, const Tensor& out, const Tensor& lse,
                                           const Tensor& /*cum_seq_q*/, const Tensor& /*cum_seq_k*/, int64_t /*max_q*/,
                                           int64_t /*max_k*/, double dropout, bool causal, const Tensor& seed,
                                           const Tensor& offset, std::optional<double> scale) {
  TORCH_CHECK(!wanted[3], "fused attention does not compute a gradient of attn_mask");
  if (!grad.defined()) return Backward();  // no gradient reaches the output
  const Operands operands(query, key, value, mask);
  const int index = query.device().index();
  const auto gradient_like = [&](const Tensor& like) { return empty(like.sizes(), like.scalar_type(), index); };
  const Tensor grad_query = gradient_like(query), grad_key = gradient_like(key), grad_value = gradient_like(value);
  const Tensor g = rows_contiguous(grad), o = rows_contiguous(out);
  hp::ops::AttentionArgs args = operands.attention(causal, scale, dropout);
  if (dropout != 0) {
    args.random = {static_cast<uint64_t>(seed.item<int64_t>()), static_cast<uint64_t>(offset.item<int64_t>())};
  }
  if (!hp::ops::attention_backward(overload, device_holding(query), view(grad_query), view(grad_key), view(grad_value),
                                   view(g), view(o), view(lse), args)) {
    return std::nullopt;
  }
  return Backward(grad_query, grad_key, grad_value, Tensor());
}

// Traced tensors have no memory, and their sizes may be symbolic; torch's own rule for them does not cover PrivateUse1.
// Sizes that decide become guards of the graph.
bool fits_traced(const Tensor& query, const Tensor& key, const Tensor& value, bool grouped) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4 || !at::isFloatingType(query.scalar_type())) return false;
  if (key.scalar_type() != query.scalar_type() || value.scalar_type() != query.scalar_type()) return false;
  const auto same = [](const Tensor& a, int64_t i, const Tensor& b, int64_t j) {
    return TORCH_GUARD_OR_FALSE(a.sym_size(i).sym_eq(b.sym_size(j)));
  };
  if (!same(query, 0, key, 0) || !same(query, 0, value, 0) || !same(key, 1, value, 1) || !same(key, 2, value, 2) ||
      !same(query, 3, key, 3) || (!grouped && !same(query, 1, key, 1))) {
    return false;
  }
  for (const Tensor* tensor : {&query, &key, &value}) {
    if (!TORCH_GUARD_OR_FALSE(tensor->sym_numel().sym_ne(0))) return false;
  }
  const auto most = c10::SymInt(hp::ops::kMaxHeadDim);
  return TORCH_GUARD_OR_FALSE((query.sym_size(1) % key.sym_size(1)).sym_eq(0)) &&
         TORCH_GUARD_OR_FALSE(query.sym_size(3).sym_le(most)) && TORCH_GUARD_OR_FALSE(value.sym_size(3).sym_le(most));
}

int64_t choose(const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout,
               bool causal, std::optional<double> scale, bool grouped) {
  if (query.key_set().has(c10::DispatchKey::Python)) {
    const bool fused = runtime().plugin->compiler.compile != nullptr;
    return first_enabled(fused,
                         fused && dropout == 0 && fits_mask(mask, causal) && fits_traced(query, key, value, grouped));
  }
  return at::_fused_sdp_choice(query, key, value, mask, dropout, causal, scale, grouped);
}

// torch has no rule of vmap for the choice, nor for the fused kernels.
int64_t choose_in_vmap(const Tensor& /*query*/, const Tensor& /*key*/, const Tensor& /*value*/,
                       const OptionalTensor& /*mask*/, double /*dropout*/, bool /*causal*/,
                       std::optional<double> /*scale*/, bool /*grouped*/) {
  return static_cast<int64_t>(at::SDPBackend::math);
}

TORCH_LIBRARY_IMPL(aten, FuncTorchBatched, m) { m.impl("_fused_sdp_choice", TORCH_FN(choose_in_vmap)); }

}  // namespace
}  // namespace hp::torch_adapter::ops

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &hp::torch_adapter::ops::choose)
}  // namespace at::native

#include "generated/attention.inc"
