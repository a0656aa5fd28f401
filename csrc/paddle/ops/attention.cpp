#include "ops/attention.h"

#include <cmath>

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

// Views [batch, length, heads, head_dim] as [batch, heads, length, head_dim].
ShapedView heads_second(const View& tensor) { return ShapedView(tensor).swap(1, 2); }

// Inputs: query, key, value, bias, then sequence lengths, which are not supported. Attributes: max_seqlen_q,
// max_seqlen_k, causal, dropout_p, scale.
struct Attention {
  ShapedView query, key, value, bias;
  hp::ops::AttentionArgs args;

  // False if the call is not supported. Inputs in `unsupported` must be absent.
  bool read(const Call& call, std::initializer_list<int> unsupported) {
    for (int i : unsupported) {
      if (call.input(i) != nullptr) return false;
    }
    for (int i : {0, 1, 2}) {
      if (!is_ready(call.input(i)) || call.input(i)->dims().size() != 4 || call.input(i)->numel() == 0) return false;
    }
    query = heads_second(call.view_of(0)), key = heads_second(call.view_of(1)), value = heads_second(call.view_of(2));
    const bool causal = call.attr<bool>(2);
    if (query.size(3) > hp::ops::kMaxHeadDim || value.size(3) > hp::ops::kMaxHeadDim ||
        query.size(1) % key.size(1) != 0 || (causal && query.size(2) != key.size(2)) || !is_float(query.view().dtype)) {
      return false;
    }
    const double scale = call.real(4) > 0 ? call.real(4) : 1 / std::sqrt(static_cast<double>(query.size(3)));
    args = {query, key, value, {}, causal, scale};
    if (call.input(3) == nullptr) return true;
    if (!is_ready(call.input(3)) || call.input(3)->dtype() != call.kernel.dtype) return false;
    const int64_t scores[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
    bias = ShapedView(call.view_of(3));
    for (int d = 0; d < bias.ndim(); ++d) {
      const int aligned = 4 - bias.ndim() + d;
      if (aligned < 0 || (bias.size(d) != 1 && bias.size(d) != scores[aligned])) return false;
    }
    args.mask = bias.expand(4, scores);
    return true;
  }
};

// Outputs: out, logsumexp, seed_and_offset (of dropout, which is not supported: left uninitialized).
bool memory_efficient_attention(Call& call) {
  Attention attention;
  const bool has_dropout = call.real(3) != 0 && !call.attr<bool>(5);
  if (has_dropout || !attention.read(call, {4, 5, 6, 7})) return false;
  ShapedView &query = attention.query, &value = attention.value;
  call.output(0)->Resize({query.size(0), query.size(2), query.size(1), value.size(3)});
  const ShapedView out = heads_second(call.allocate(0));
  DenseTensor& logsumexp = *call.output(1);
  logsumexp.Resize({query.size(0), query.size(1), query.size(2)});
  call.context.Alloc(&logsumexp,
                     call.kernel.dtype == phi::DataType::FLOAT64 ? call.kernel.dtype : phi::DataType::FLOAT32);
  if (call.output(2) != nullptr) {
    call.output(2)->Resize({2});
    call.context.Alloc(call.output(2), phi::DataType::INT64);
  }
  return hp::ops::attention(call.binding(), call.device, out, view(logsumexp), attention.args);
}

// Inputs: the first six above, then output, logsumexp, seed_and_offset, output_grad.
bool memory_efficient_attention_grad(Call& call) {
  Attention attention;
  if (call.output(3) != nullptr || !is_ready(call.input(6)) || !is_ready(call.input(7)) || !is_ready(call.input(9)) ||
      call.real(3) != 0 || !attention.read(call, {4, 5})) {
    return false;
  }
  // The kernels always compute all three gradients: one that Paddle does not need goes to a temporary.
  const auto grad_of = [&](int i, std::optional<Temporary>& spare) {
    if (call.output(i) != nullptr) return heads_second(call.allocate(i));
    const View input = call.view_of(i);
    return heads_second(spare.emplace(call.device, input.dtype, input.ndim, input.sizes));
  };
  std::optional<Temporary> query_spare, key_spare, value_spare;
  const ShapedView query_grad = grad_of(0, query_spare), key_grad = grad_of(1, key_spare),
                   value_grad = grad_of(2, value_spare);
  const Temporary dense(call.device, query_grad.view().dtype, 4, query_grad.view().sizes);
  return hp::ops::attention_backward(call.binding(), call.device, dense, key_grad, value_grad,
                                     heads_second(call.view_of(9)), heads_second(call.view_of(6)), call.view_of(7),
                                     attention.args) &&
         copy(copy_op.on(call.device), call.device, query_grad, dense);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/attention.inc"
