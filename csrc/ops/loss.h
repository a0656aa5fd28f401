// Losses and their backward. All views but CTC targets are contiguous; all but class indices have one floating-point
// dtype.
#pragma once

#include "core/dispatch/vendor_call.h"

namespace hp::ops {

enum class LossReduction : int64_t { kNone, kMean, kSum };

// Losses of one element of self and one of target.
enum class ElementwiseLoss : int { kSquared, kSmoothL1, kHuber, kBinaryCrossEntropy };

// `threshold`: where smooth L1 and Huber change from quadratic to linear. `weight` may be undefined. out has the sizes
// of self, or no dimensions if reduced.
bool elementwise_loss(const OpBinding& binding, Device& device, ElementwiseLoss loss, const View& out, const View& self,
                      const View& target, const View& weight, LossReduction reduction, double threshold);
// grad has the sizes of self, or one element.
bool elementwise_loss_backward(const OpBinding& binding, Device& device, ElementwiseLoss loss, const View& out,
                               const View& grad, const View& self, const View& target, const View& weight,
                               LossReduction reduction, double threshold);

// self: batch x classes x positions; target: batch x positions.
struct ClassificationShape {
  int64_t batch, classes, positions;
};
bool nll_loss(const OpBinding& binding, Device& device, const View& out, const View& total_weight, const View& self,
              const View& target, const View& weight, const ClassificationShape& shape, LossReduction reduction,
              int64_t ignore_index);
bool nll_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& self,
                       const View& target, const View& weight, const View& total_weight,
                       const ClassificationShape& shape, LossReduction reduction, int64_t ignore_index);

// self: rows x classes; target: rows. p is 1 or 2.
bool multi_margin_loss(const OpBinding& binding, Device& device, const View& out, const View& self, const View& target,
                       const View& weight, const ClassificationShape& shape, int64_t p, double margin,
                       LossReduction reduction);
bool multi_margin_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                                const View& self, const View& target, const View& weight,
                                const ClassificationShape& shape, int64_t p, double margin, LossReduction reduction);

// self, target and is_target: rows x classes.
bool multilabel_margin_loss(const OpBinding& binding, Device& device, const View& out, const View& is_target,
                            const View& self, const View& target, const ClassificationShape& shape,
                            LossReduction reduction);
bool multilabel_margin_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad,
                                     const View& self, const View& target, const View& is_target,
                                     const ClassificationShape& shape, LossReduction reduction);

// Log probabilities are steps x batch x labels. `lengths` is int64, batch x 3: steps, labels, and the offset of the
// first label in `view`, whose labels are `stride` apart. Only `view` may be strided; none is empty.
struct CtcTargets {
  View view, lengths;
  int64_t stride, blank;
};
// alpha: batch x steps x (2 * max labels + 1).
bool ctc_loss(const OpBinding& binding, Device& device, const View& losses, const View& alpha, const View& logs,
              const CtcTargets& targets);
bool ctc_loss_backward(const OpBinding& binding, Device& device, const View& out, const View& grad, const View& logs,
                       const CtcTargets& targets, const View& losses, const View& alpha, bool zero_infinity);

}  // namespace hp::ops
