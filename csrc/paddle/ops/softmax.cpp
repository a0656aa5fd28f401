#include "../../ops/softmax.h"

#include "../parts.h"

namespace hp::paddle_adapter::ops {
namespace {

int64_t dimension(const Call& call, int64_t axis) { return axis < 0 ? axis + call.output(0)->dims().size() : axis; }

bool forward(Call& call, bool logarithm) {
  if (!call.plain()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (out.ndim == 0) return fill(call.device, out, logarithm ? 0 : 1) && decomposed(call);
  return hp::ops::softmax(call.service(), call.device, out, call.view_of(0), dimension(call, call.integer(0)),
                          logarithm);
}
bool softmax(Call& call) { return forward(call, false); }
bool log_softmax(Call& call) { return forward(call, true); }

// Inputs: the output of the forward pass, its gradient.
bool backward(Call& call, bool logarithm) {
  if (!call.plain()) return false;
  const View out = call.allocate(0);
  if (out.numel() == 0) return true;
  if (out.ndim == 0) return fill(call.device, out, 0) && decomposed(call);
  return hp::ops::softmax_backward(call.service(), call.device, out, call.view_of(1), call.view_of(0),
                                   dimension(call, call.integer(0)), logarithm);
}
bool softmax_grad(Call& call) { return backward(call, false); }
bool log_softmax_grad(Call& call) { return backward(call, true); }

}  // namespace
}  // namespace hp::paddle_adapter::ops

#include "generated/softmax.inc"
