// The loss of connectionist temporal classification. Log probabilities are steps x batches x labels; lengths are
// batches x 3 of 64 bits: steps, labels, and where the first label is in `targets`, whose labels are `stride` apart.
// Targets are passed by their address; all other views are contiguous, and none is empty.
#pragma once

#include "../core/service.h"

namespace hp::ops {

struct CtcTargets {
  View view, lengths;
  int64_t stride, blank;
};

// alpha: batches x steps x (2 * most labels + 1).
bool ctc_loss(const Service& service, Device& device, const View& losses, const View& alpha, const View& logs,
              const CtcTargets& targets);
bool ctc_loss_backward(const Service& service, Device& device, const View& out, const View& grad, const View& logs,
                       const CtcTargets& targets, const View& losses, const View& alpha, bool zero_infinity);

}  // namespace hp::ops
