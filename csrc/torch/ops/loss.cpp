#include "ops/loss.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/result_type.h>

#include <limits>

#include "ops/op_helpers.h"

namespace hp::torch_adapter::ops {
namespace {

using hp::ops::ClassificationShape;
using hp::ops::ElementwiseLoss;
using hp::ops::LossReduction;
using Two = std::tuple<Tensor, Tensor>;

bool valid_reduction(int64_t reduction) { return reduction >= 0 && reduction <= 2; }

// The mean or the sum of no elements.
void fill_empty(const Tensor& out, LossReduction reduction) {
  if (out.numel() != 0) out.fill_(reduction == LossReduction::kMean ? std::numeric_limits<double>::quiet_NaN() : 0.0);
}

bool write(const std::optional<Tensor>& result, Tensor& out) {
  if (!result) return false;
  write_output(out, *result);
  return true;
}

// ---- Elementwise losses

std::optional<Tensor> pair(const Overload& overload, ElementwiseLoss loss, const Tensor& self, const Tensor& target,
                           const OptionalTensor& weight_opt, int64_t reduction, double threshold = 0) {
  const at::ScalarType dtype = at::result_type(self, target);
  if (!at::isFloatingType(dtype) || !valid_reduction(reduction)) return std::nullopt;
  const auto mode = static_cast<LossReduction>(reduction);
  const std::vector<int64_t> sizes = at::infer_size(self.sizes(), target.sizes());
  const auto bring = [&](const Tensor& tensor) { return tensor.to(dtype).expand(sizes).contiguous(); };
  Tensor out =
      empty(mode == LossReduction::kNone ? at::IntArrayRef(sizes) : at::IntArrayRef(), dtype, self.device().index());
  const Tensor x = bring(self), t = bring(target);
  const Tensor weight = weight_opt && weight_opt->defined() ? bring(*weight_opt) : Tensor();
  if (x.numel() == 0) {
    fill_empty(out, mode);
    return out;
  }
  if (!hp::ops::elementwise_loss(overload, device_holding(self), loss, view(out), view(x), view(t), view(weight), mode,
                                 threshold)) {
    return std::nullopt;
  }
  return out;
}

std::optional<Tensor> pair_backward(const Overload& overload, ElementwiseLoss loss, const Tensor& grad,
                                    const Tensor& self, const Tensor& target, const OptionalTensor& weight_opt,
                                    int64_t reduction, double threshold = 0) {
  if (!valid_reduction(reduction) || self.sizes() != target.sizes() || self.scalar_type() != target.scalar_type() ||
      grad.scalar_type() != self.scalar_type() || !at::isFloatingType(self.scalar_type())) {
    return std::nullopt;
  }
  if (grad.numel() != 1 && grad.sizes() != self.sizes()) return std::nullopt;
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  const Tensor g = grad.contiguous(), x = self.contiguous(), t = target.contiguous();
  const Tensor weight = weight_opt && weight_opt->defined()
                            ? weight_opt->to(self.scalar_type()).expand(self.sizes()).contiguous()
                            : Tensor();
  if (!hp::ops::elementwise_loss_backward(overload, device_holding(self), loss, view(out), view(g), view(x), view(t),
                                          view(weight), static_cast<LossReduction>(reduction), threshold)) {
    return std::nullopt;
  }
  return out;
}

std::optional<Tensor> mse_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction) {
  return pair(overload, ElementwiseLoss::kSquared, self, target, {}, reduction);
}
bool mse_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out) {
  return write(mse_loss(overload, self, target, reduction), out);
}
std::optional<Tensor> mse_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                        const Tensor& target, int64_t reduction) {
  return pair_backward(overload, ElementwiseLoss::kSquared, grad, self, target, {}, reduction);
}
bool mse_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& target,
                       int64_t reduction, Tensor& out) {
  return write(mse_loss_backward(overload, grad, self, target, reduction), out);
}

std::optional<Tensor> smooth_l1_loss(const Overload& overload, const Tensor& self, const Tensor& target,
                                     int64_t reduction, double beta) {
  if (beta < 0) return std::nullopt;
  return pair(overload, ElementwiseLoss::kSmoothL1, self, target, {}, reduction, beta);
}
bool smooth_l1_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction, double beta,
                    Tensor& out) {
  return write(smooth_l1_loss(overload, self, target, reduction, beta), out);
}
std::optional<Tensor> smooth_l1_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                              const Tensor& target, int64_t reduction, double beta) {
  return pair_backward(overload, ElementwiseLoss::kSmoothL1, grad, self, target, {}, reduction, beta);
}
bool smooth_l1_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& target,
                             int64_t reduction, double beta, Tensor& out) {
  return write(smooth_l1_loss_backward(overload, grad, self, target, reduction, beta), out);
}

std::optional<Tensor> huber_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction,
                                 double delta) {
  if (!(delta > 0)) return std::nullopt;
  return pair(overload, ElementwiseLoss::kHuber, self, target, {}, reduction, delta);
}
bool huber_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction, double delta,
                Tensor& out) {
  return write(huber_loss(overload, self, target, reduction, delta), out);
}
std::optional<Tensor> huber_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                          const Tensor& target, int64_t reduction, double delta) {
  return pair_backward(overload, ElementwiseLoss::kHuber, grad, self, target, {}, reduction, delta);
}
bool huber_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& target,
                         int64_t reduction, double delta, Tensor& out) {
  return write(huber_loss_backward(overload, grad, self, target, reduction, delta), out);
}

std::optional<Tensor> binary_cross_entropy(const Overload& overload, const Tensor& self, const Tensor& target,
                                           const OptionalTensor& weight, int64_t reduction) {
  return pair(overload, ElementwiseLoss::kBinaryCrossEntropy, self, target, weight, reduction);
}
bool binary_cross_entropy(const Overload& overload, const Tensor& self, const Tensor& target,
                          const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  return write(binary_cross_entropy(overload, self, target, weight, reduction), out);
}
std::optional<Tensor> binary_cross_entropy_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                                    const Tensor& target, const OptionalTensor& weight,
                                                    int64_t reduction) {
  return pair_backward(overload, ElementwiseLoss::kBinaryCrossEntropy, grad, self, target, weight, reduction);
}
bool binary_cross_entropy_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                   const Tensor& target, const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  return write(binary_cross_entropy_backward(overload, grad, self, target, weight, reduction), out);
}

// ---- Losses with class indices

bool class_indices(const Tensor& target) {
  return target.scalar_type() == at::kLong || target.scalar_type() == at::kByte;
}
bool class_weights(const Tensor& weight, const Tensor& self, int64_t classes) {
  return !weight.defined() ||
         (weight.dim() == 1 && weight.numel() == classes && weight.scalar_type() == self.scalar_type());
}

// One sample has one loss, whatever the reduction; its mean is still divided by its weight.
LossReduction reduction_of(const Tensor& self, int64_t reduction) {
  return self.dim() == 1 && reduction == 0 ? LossReduction::kSum : static_cast<LossReduction>(reduction);
}

bool nll_loss(const Overload& overload, const Tensor& out, const Tensor& total_weight, const Tensor& self,
              const Tensor& target, const OptionalTensor& weight_opt, int64_t reduction, int64_t ignore_index) {
  const Tensor weight = contiguous(weight_opt);
  const ClassificationShape shape{self.dim() == 1 ? 1 : self.size(0), self.size(-1), 1};
  const LossReduction mode = reduction_of(self, reduction);
  if (!valid_reduction(reduction) || !class_indices(target) || !class_weights(weight, self, shape.classes))
    return false;
  if (mode == LossReduction::kNone || target.numel() == 0) total_weight.zero_();
  if (target.numel() == 0) {
    fill_empty(out, mode);
    return true;
  }
  const Tensor x = self.contiguous(), t = target.contiguous();
  const ContiguousOutput to(out), weights(total_weight);
  if (!hp::ops::nll_loss(overload, device_holding(self), view(to.tensor()), view(weights.tensor()), view(x), view(t),
                         view(weight), shape, mode, ignore_index)) {
    return false;
  }
  to.finish();
  weights.finish();
  return true;
}

bool nll_loss_backward(const Overload& overload, const Tensor& out, const Tensor& grad, const Tensor& self,
                       const Tensor& target, const OptionalTensor& weight_opt, int64_t reduction, int64_t ignore_index,
                       const Tensor& total_weight) {
  const Tensor weight = contiguous(weight_opt);
  const ClassificationShape shape{self.dim() == 1 ? 1 : self.size(0), self.size(-1), 1};
  if (!valid_reduction(reduction) || !class_indices(target) || !class_weights(weight, self, shape.classes))
    return false;
  if (grad.scalar_type() != self.scalar_type() || total_weight.scalar_type() != self.scalar_type()) return false;
  if (out.numel() == 0) return true;
  const Tensor g = grad.contiguous(), x = self.contiguous(), t = target.contiguous();
  const ContiguousOutput to(out);
  if (!hp::ops::nll_loss_backward(overload, device_holding(self), view(to.tensor()), view(g), view(x), view(t),
                                  view(weight), view(total_weight), shape, reduction_of(self, reduction),
                                  ignore_index)) {
    return false;
  }
  to.finish();
  return true;
}

bool fits_2d(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction) {
  return valid_reduction(reduction) && self.dim() == 4 && target.dim() == 3 && class_indices(target) &&
         at::isFloatingType(self.scalar_type()) && self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
         self.size(3) == target.size(2) && class_weights(weight, self, self.size(1));
}
ClassificationShape shape_2d(const Tensor& self) { return {self.size(0), self.size(1), self.size(2) * self.size(3)}; }

std::optional<Two> nll_loss(const Overload& overload, const Tensor& self, const Tensor& target,
                            const OptionalTensor& weight_opt, int64_t reduction, int64_t ignore_index) {
  const Tensor weight = contiguous(weight_opt);
  if (!fits_2d(self, target, weight, reduction)) return std::nullopt;
  const auto mode = static_cast<LossReduction>(reduction);
  const int index = self.device().index();
  const Tensor out =
      empty(mode == LossReduction::kNone ? target.sizes() : at::IntArrayRef(), self.scalar_type(), index);
  const Tensor total_weight = empty({}, self.scalar_type(), index);
  if (mode == LossReduction::kNone || target.numel() == 0) total_weight.zero_();
  if (target.numel() == 0) {
    fill_empty(out, mode);
    return Two(out, total_weight);
  }
  const Tensor x = self.contiguous(), t = target.contiguous();
  if (!hp::ops::nll_loss(overload, device_holding(self), view(out), view(total_weight), view(x), view(t), view(weight),
                         shape_2d(self), mode, ignore_index)) {
    return std::nullopt;
  }
  return Two(out, total_weight);
}

bool nll_loss(const Overload& overload, const Tensor& self, const Tensor& target, const OptionalTensor& weight,
              int64_t reduction, int64_t ignore_index, Tensor& out, Tensor& total_weight) {
  const std::optional<Two> result = nll_loss(overload, self, target, weight, reduction, ignore_index);
  return result && write(std::get<0>(*result), out) && write(std::get<1>(*result), total_weight);
}

std::optional<Tensor> nll_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                        const Tensor& target, const OptionalTensor& weight_opt, int64_t reduction,
                                        int64_t ignore_index, const Tensor& total_weight) {
  const Tensor weight = contiguous(weight_opt);
  if (!fits_2d(self, target, weight, reduction) || grad.scalar_type() != self.scalar_type() ||
      total_weight.scalar_type() != self.scalar_type() || grad.numel() != (reduction == 0 ? target.numel() : 1)) {
    return std::nullopt;
  }
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  if (out.numel() == 0) return out;
  const Tensor g = grad.contiguous(), x = self.contiguous(), t = target.contiguous();
  if (!hp::ops::nll_loss_backward(overload, device_holding(self), view(out), view(g), view(x), view(t), view(weight),
                                  view(total_weight), shape_2d(self), static_cast<LossReduction>(reduction),
                                  ignore_index)) {
    return std::nullopt;
  }
  return out;
}

bool nll_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& target,
                       const OptionalTensor& weight, int64_t reduction, int64_t ignore_index,
                       const Tensor& total_weight, Tensor& out) {
  return write(nll_loss_backward(overload, grad, self, target, weight, reduction, ignore_index, total_weight), out);
}

// ---- Margin losses

ClassificationShape rows_of(const Tensor& self) {
  return {self.dim() < 2 ? 1 : self.size(0), self.dim() == 0 ? 1 : self.size(-1), 1};
}

// One loss per row, unless it is a single row without a batch dimension.
LossReduction margin_reduction(int64_t reduction, bool rows) {
  return reduction == 0 && !rows ? LossReduction::kSum : static_cast<LossReduction>(reduction);
}

bool margin_fits(const Tensor& self, const Tensor& target, int64_t rows, int64_t reduction) {
  return valid_reduction(reduction) && self.dim() <= 2 && at::isFloatingType(self.scalar_type()) && self.numel() != 0 &&
         target.scalar_type() == at::kLong && target.numel() == rows;
}

std::optional<Tensor> multi_margin_loss(const Overload& overload, const Tensor& self, const Tensor& target,
                                        const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight_opt,
                                        int64_t reduction) {
  const ClassificationShape shape = rows_of(self);
  const Tensor weight = contiguous(weight_opt);
  const double power = p.toDouble();
  if (!margin_fits(self, target, shape.batch, reduction) || target.dim() > 1 || (power != 1 && power != 2) ||
      !class_weights(weight, self, shape.classes)) {
    return std::nullopt;
  }
  const LossReduction mode = margin_reduction(reduction, target.dim() > 0);
  const std::array<int64_t, 1> each{shape.batch};
  Tensor out = empty(mode == LossReduction::kNone ? at::IntArrayRef(each) : at::IntArrayRef(), self.scalar_type(),
                     self.device().index());
  const Tensor x = self.contiguous(), t = target.contiguous();
  if (!hp::ops::multi_margin_loss(overload, device_holding(self), view(out), view(x), view(t), view(weight), shape,
                                  power == 2 ? 2 : 1, margin.toDouble(), mode)) {
    return std::nullopt;
  }
  return out;
}
bool multi_margin_loss(const Overload& overload, const Tensor& self, const Tensor& target, const at::Scalar& p,
                       const at::Scalar& margin, const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  return write(multi_margin_loss(overload, self, target, p, margin, weight, reduction), out);
}

std::optional<Tensor> multi_margin_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                                 const Tensor& target, const at::Scalar& p, const at::Scalar& margin,
                                                 const OptionalTensor& weight_opt, int64_t reduction) {
  const ClassificationShape shape = rows_of(self);
  const Tensor weight = contiguous(weight_opt);
  const double power = p.toDouble();
  const LossReduction mode = margin_reduction(reduction, target.dim() > 0);
  if (!margin_fits(self, target, shape.batch, reduction) || (power != 1 && power != 2) ||
      !class_weights(weight, self, shape.classes) || grad.scalar_type() != self.scalar_type() ||
      grad.numel() != (mode == LossReduction::kNone ? shape.batch : 1)) {
    return std::nullopt;
  }
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  const Tensor g = grad.contiguous(), x = self.contiguous(), t = target.contiguous();
  if (!hp::ops::multi_margin_loss_backward(overload, device_holding(self), view(out), view(g), view(x), view(t),
                                           view(weight), shape, power == 2 ? 2 : 1, margin.toDouble(), mode)) {
    return std::nullopt;
  }
  return out;
}
bool multi_margin_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self, const Tensor& target,
                                const at::Scalar& p, const at::Scalar& margin, const OptionalTensor& weight,
                                int64_t reduction, Tensor& out) {
  return write(multi_margin_loss_backward(overload, grad, self, target, p, margin, weight, reduction), out);
}

std::optional<Two> multilabel_margin_loss(const Overload& overload, const Tensor& self, const Tensor& target,
                                          int64_t reduction) {
  const ClassificationShape shape = rows_of(self);
  if (!margin_fits(self, target, self.numel(), reduction) || target.dim() != self.dim()) return std::nullopt;
  const LossReduction mode = margin_reduction(reduction, target.dim() > 1);
  const std::array<int64_t, 1> each{shape.batch};
  const int index = self.device().index();
  const Tensor out =
      empty(mode == LossReduction::kNone ? at::IntArrayRef(each) : at::IntArrayRef(), self.scalar_type(), index);
  const Tensor is_target = empty(target.sizes(), self.scalar_type(), index);
  const Tensor x = self.contiguous(), t = target.contiguous();
  if (!hp::ops::multilabel_margin_loss(overload, device_holding(self), view(out), view(is_target), view(x), view(t),
                                       shape, mode)) {
    return std::nullopt;
  }
  return Two(out, is_target);
}
bool multilabel_margin_loss(const Overload& overload, const Tensor& self, const Tensor& target, int64_t reduction,
                            Tensor& out, Tensor& is_target) {
  const std::optional<Two> result = multilabel_margin_loss(overload, self, target, reduction);
  return result && write(std::get<0>(*result), out) && write(std::get<1>(*result), is_target);
}

std::optional<Tensor> multilabel_margin_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                                      const Tensor& target, int64_t reduction,
                                                      const Tensor& is_target) {
  const ClassificationShape shape = rows_of(self);
  const LossReduction mode = margin_reduction(reduction, target.dim() > 1);
  if (!margin_fits(self, target, self.numel(), reduction) || grad.scalar_type() != self.scalar_type() ||
      is_target.scalar_type() != self.scalar_type() || is_target.numel() != self.numel() ||
      grad.numel() != (mode == LossReduction::kNone ? shape.batch : 1)) {
    return std::nullopt;
  }
  Tensor out = empty(self.sizes(), self.scalar_type(), self.device().index());
  const Tensor g = grad.contiguous(), x = self.contiguous(), t = target.contiguous(), marks = is_target.contiguous();
  if (!hp::ops::multilabel_margin_loss_backward(overload, device_holding(self), view(out), view(g), view(x), view(t),
                                                view(marks), shape, mode)) {
    return std::nullopt;
  }
  return out;
}
bool multilabel_margin_loss_backward(const Overload& overload, const Tensor& grad, const Tensor& self,
                                     const Tensor& target, int64_t reduction, const Tensor& is_target, Tensor& out) {
  return write(multilabel_margin_loss_backward(overload, grad, self, target, reduction, is_target), out);
}

}  // namespace
}  // namespace hp::torch_adapter::ops

#include "generated/loss.inc"
