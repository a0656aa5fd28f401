// Losses. All views are contiguous and floating-point ones of one dtype, but for class indices.
#pragma once

#include "../core/service.h"

namespace hp::ops {

enum class Reduction : int64_t { kNone, kMean, kSum };

// Losses from two elements each.
enum class PairLoss : int { kSquared, kSmoothL1, kHuber, kBinaryCrossEntropy };

// `bend`, an attribute of those that have one: where squares turn to lines. `weight` may be undefined. out has the
// sizes of self, or no dimensions where the losses are reduced.
bool pair_loss(const Service& service, Device& device, PairLoss loss, const View& out, const View& self,
               const View& target, const View& weight, Reduction reduction, double bend);
// grad has the sizes of self, or one element.
bool pair_loss_backward(const Service& service, Device& device, PairLoss loss, const View& out, const View& grad,
                        const View& self, const View& target, const View& weight, Reduction reduction, double bend);

// self: batch x classes x places; target: batch x places.
struct Classes {
  int64_t batch, classes, places;
};
bool nll_loss(const Service& service, Device& device, const View& out, const View& total_weight, const View& self,
              const View& target, const View& weight, const Classes& shape, Reduction reduction, int64_t ignore_index);
bool nll_loss_backward(const Service& service, Device& device, const View& out, const View& grad, const View& self,
                       const View& target, const View& weight, const View& total_weight, const Classes& shape,
                       Reduction reduction, int64_t ignore_index);

// self: rows x classes; target: rows. p is 1 or 2.
bool multi_margin_loss(const Service& service, Device& device, const View& out, const View& self, const View& target,
                       const View& weight, const Classes& shape, int64_t p, double margin, Reduction reduction);
bool multi_margin_loss_backward(const Service& service, Device& device, const View& out, const View& grad,
                                const View& self, const View& target, const View& weight, const Classes& shape,
                                int64_t p, double margin, Reduction reduction);

// self, target and is_target: rows x classes.
bool multilabel_margin_loss(const Service& service, Device& device, const View& out, const View& is_target,
                            const View& self, const View& target, const Classes& shape, Reduction reduction);
bool multilabel_margin_loss_backward(const Service& service, Device& device, const View& out, const View& grad,
                                     const View& self, const View& target, const View& is_target, const Classes& shape,
                                     Reduction reduction);

}  // namespace hp::ops
