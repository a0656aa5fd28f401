#include "ops/softmax.h"

#include "dispatch/composition.h"

namespace hp::paddle_adapter::ops {
namespace {

bool forward(Call& call, bool logarithm) {
  if (!call.inputs_ready()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (out.ndim == 0) return fill(call.device, out, logarithm ? 0 : 1) && count_decomposed(call);
  return hp::ops::softmax(call.binding(), call.device, out, call.view_of(0), wrap_dim(call.integer(0), out.ndim),
                          logarithm);
}
bool softmax(Call& call) { return forward(call, false); }
bool log_softmax(Call& call) { return forward(call, true); }

// Inputs: out, out_grad.
bool backward(Call& call, bool logarithm) {
  if (!call.inputs_ready()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (out.ndim == 0) return fill(call.device, out, 0) && count_decomposed(call);
  return hp::ops::softmax_backward(call.binding(), call.device, out, call.view_of(1), call.view_of(0),
                                   wrap_dim(call.integer(0), out.ndim), logarithm);
}
bool softmax_grad(Call& call) { return backward(call, false); }
bool log_softmax_grad(Call& call) { return backward(call, true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/softmax.inc"
