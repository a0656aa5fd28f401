"""Losses and their backward. ``reduction`` is 0 for none, 1 for mean, 2 for sum."""

from hardpoint.ops import PLAIN, Op, Overload, custom_op

#: These include the reduction, so torch's shape rule for the unreduced operator does not apply.
OWN = Overload(custom_shape=True)

OPS = (
    custom_op("mse_loss(self, target; reduction)", "out = (self - target)^2", "mse_loss mse_loss.out", OWN),
    custom_op(
        "mse_loss_backward(grad_output, self, target; reduction)",
        "the gradient of mse_loss",
        "mse_loss_backward mse_loss_backward.grad_input",
        OWN,
    ),
    custom_op(
        "smooth_l1_loss(self, target; reduction, beta)",
        "out = (self - target)^2 / (2 beta) within beta, |self - target| - beta / 2 beyond",
        "smooth_l1_loss smooth_l1_loss.out",
        OWN,
    ),
    custom_op(
        "smooth_l1_loss_backward(grad_output, self, target; reduction, beta)",
        "the gradient of smooth_l1_loss",
        "smooth_l1_loss_backward smooth_l1_loss_backward.grad_input",
        OWN,
    ),
    custom_op(
        "huber_loss(self, target; reduction, delta)",
        "out = (self - target)^2 / 2 within delta, delta (|self - target| - delta / 2) beyond",
        "huber_loss huber_loss.out",
        OWN,
    ),
    custom_op(
        "huber_loss_backward(grad_output, self, target; reduction, delta)",
        "the gradient of huber_loss",
        "huber_loss_backward huber_loss_backward.out",
        OWN,
    ),
    custom_op(
        "binary_cross_entropy(self, target, weight; reduction)",
        "out = -weight (target log(self) + (1 - target) log(1 - self)), logarithms clamped at -100",
        "binary_cross_entropy binary_cross_entropy.out",
        OWN,
    ),
    custom_op(
        "binary_cross_entropy_backward(grad_output, self, target, weight; reduction)",
        "the gradient of binary_cross_entropy",
        "binary_cross_entropy_backward binary_cross_entropy_backward.grad_input",
        OWN,
    ),
    Op(
        "nll_loss",
        "custom",
        ("self", "target", "weight"),
        "out, total_weight: -weight[target] self[target], and the sum of the weights",
        {"nll_loss_forward": PLAIN, "nll_loss2d_forward": OWN, "nll_loss2d_forward.output": OWN},
        attributes=("reduction", "ignore_index"),
    ),
    Op(
        "nll_loss_backward",
        "custom",
        ("grad_output", "self", "target", "weight", "total_weight"),
        "the gradient of nll_loss",
        {"nll_loss_backward": PLAIN, "nll_loss2d_backward": OWN, "nll_loss2d_backward.grad_input": OWN},
        attributes=("reduction", "ignore_index"),
    ),
    custom_op(
        "multi_margin_loss(self, target, weight; p, margin, reduction)",
        "out = the mean over the other classes j of weight[target] max(0, margin - self[target] + self[j])^p",
        "multi_margin_loss multi_margin_loss.out",
        OWN,
    ),
    custom_op(
        "multi_margin_loss_backward(grad_output, self, target, weight; p, margin, reduction)",
        "the gradient of multi_margin_loss",
        "multi_margin_loss_backward multi_margin_loss_backward.grad_input",
        OWN,
    ),
    custom_op(
        "multilabel_margin_loss(self, target; reduction)",
        "out, is_target: the mean over classes of max(0, 1 - self[target] + self[other])",
        "multilabel_margin_loss_forward multilabel_margin_loss_forward.output",
        OWN,
    ),
    custom_op(
        "multilabel_margin_loss_backward(grad_output, self, target, is_target; reduction)",
        "the gradient of multilabel_margin_loss",
        "multilabel_margin_loss_backward multilabel_margin_loss_backward.grad_input",
        OWN,
    ),
)
