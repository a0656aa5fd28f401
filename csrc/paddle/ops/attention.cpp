#include "../../ops/attention.h"

#include <cmath>

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

// Batch x length x heads x elements, as batch x heads x length x elements.
Shaped heads_second(const View& given) { return Shaped(given).swap(1, 2); }

// What is attended to. Inputs: query, key, value, bias, and lengths, which are not served. Attributes: max_seqlen_q,
// max_seqlen_k, causal, dropout_p, scale.
struct Attended {
  Shaped query, key, value, bias;
  hp::ops::Attention given;

  bool read(const Call& call, std::initializer_list<int> absent) {
    for (int i : absent) {
      if (call.input(i) != nullptr) return false;
    }
    for (int i : {0, 1, 2}) {
      if (!ready(call.input(i)) || call.input(i)->dims().size() != 4 || call.input(i)->numel() == 0) return false;
    }
    query = heads_second(call.view_of(0)), key = heads_second(call.view_of(1)), value = heads_second(call.view_of(2));
    const bool causal = call.attr<bool>(2);
    if (query.size(3) > hp::ops::kMostAttentionElements || value.size(3) > hp::ops::kMostAttentionElements ||
        query.size(1) % key.size(1) != 0 || (causal && query.size(2) != key.size(2)) || !is_float(query.view().dtype)) {
      return false;
    }
    const double scale = call.real(4) > 0 ? call.real(4) : 1 / std::sqrt(static_cast<double>(query.size(3)));
    given = {query, key, value, {}, causal, scale};
    if (call.input(3) == nullptr) return true;
    if (!ready(call.input(3)) || call.input(3)->dtype() != call.kernel.dtype) return false;
    const int64_t scores[] = {query.size(0), query.size(1), query.size(2), key.size(2)};
    bias = Shaped(call.view_of(3));
    for (int d = 0; d < bias.ndim(); ++d) {
      const int at = 4 - bias.ndim() + d;
      if (at < 0 || (bias.size(d) != 1 && bias.size(d) != scores[at])) return false;
    }
    given.mask = bias.expand(4, scores);
    return true;
  }
};

// Outputs: the result, the logarithms of sums, and what dropout would need.
bool memory_efficient_attention(Call& call) {
  Attended attended;
  const bool drops = call.real(3) != 0 && !call.attr<bool>(5);
  if (drops || !attended.read(call, {4, 5, 6, 7})) return false;
  Shaped &query = attended.query, &value = attended.value;
  call.output(0)->Resize({query.size(0), query.size(2), query.size(1), value.size(3)});
  const Shaped out = heads_second(call.allocate(0));
  DenseTensor& sums = *call.output(1);
  sums.Resize({query.size(0), query.size(1), query.size(2)});
  call.context.Alloc(&sums, call.kernel.dtype == phi::DataType::FLOAT64 ? call.kernel.dtype : phi::DataType::FLOAT32);
  if (call.output(2) != nullptr) {
    call.output(2)->Resize({2});
    call.context.Alloc(call.output(2), phi::DataType::INT64);
  }
  return hp::ops::attention(call.service(), call.device, out, view(sums), attended.given);
}

// Inputs: those above without the last two, then output, logsumexp, seed_and_offset, output_grad.
bool memory_efficient_attention_grad(Call& call) {
  Attended attended;
  if (call.output(3) != nullptr || !ready(call.input(6)) || !ready(call.input(7)) || !ready(call.input(9)) ||
      call.real(3) != 0 || !attended.read(call, {4, 5})) {
    return false;
  }
  // All three come from the same kernels.
  const auto grad_of = [&](int i, std::optional<Temporary>& spare) {
    if (call.output(i) != nullptr) return heads_second(call.allocate(i));
    const View given = call.view_of(i);
    return heads_second(spare.emplace(call.device, given.dtype, given.ndim, given.sizes));
  };
  std::optional<Temporary> query_spare, key_spare, value_spare;
  const Shaped of_query = grad_of(0, query_spare), of_key = grad_of(1, key_spare), of_value = grad_of(2, value_spare);
  const View& wanted = of_query;
  const Temporary dense(call.device, wanted.dtype, 4, wanted.sizes);
  static Step copying("copy");
  return hp::ops::attention_backward(call.service(), call.device, dense, of_key, of_value,
                                     heads_second(call.view_of(9)), heads_second(call.view_of(6)), call.view_of(7),
                                     attended.given) &&
         copy(copying.on(call.device), call.device, of_query, dense);
}

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/attention.inc"
