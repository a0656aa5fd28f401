"""Losses and their backward. ``reduction`` is 0 for none, 1 for the mean, 2 for the sum."""

from hardpoint.ops import Op, Overload

PAIR = ("self", "target")
#: These reduce at once, so that their output is not what torch's shape rule for them asks for.
OWN = Overload(own_shape=True)


def loss(name: str, inputs: tuple[str, ...], doc: str, attributes: tuple[str, ...], *aten: str) -> Op:
    """An operator of this family."""
    return Op(name, "custom", inputs, doc, dict.fromkeys(aten, OWN), attributes=attributes)


OPS = (
    loss("mse_loss", PAIR, "out = (self - target)^2", ("reduction",), "mse_loss", "mse_loss.out"),
    loss(
        "mse_loss_backward",
        ("grad_output", *PAIR),
        "the gradient of mse_loss",
        ("reduction",),
        "mse_loss_backward",
        "mse_loss_backward.grad_input",
    ),
    loss(
        "smooth_l1_loss",
        PAIR,
        "out = (self - target)^2 / (2 beta) within beta, |self - target| - beta / 2 beyond",
        ("reduction", "beta"),
        "smooth_l1_loss",
        "smooth_l1_loss.out",
    ),
    loss(
        "smooth_l1_loss_backward",
        ("grad_output", *PAIR),
        "the gradient of smooth_l1_loss",
        ("reduction", "beta"),
        "smooth_l1_loss_backward",
        "smooth_l1_loss_backward.grad_input",
    ),
    loss(
        "huber_loss",
        PAIR,
        "out = (self - target)^2 / 2 within delta, delta (|self - target| - delta / 2) beyond",
        ("reduction", "delta"),
        "huber_loss",
        "huber_loss.out",
    ),
    loss(
        "huber_loss_backward",
        ("grad_output", *PAIR),
        "the gradient of huber_loss",
        ("reduction", "delta"),
        "huber_loss_backward",
        "huber_loss_backward.out",
    ),
    loss(
        "binary_cross_entropy",
        (*PAIR, "weight"),
        "out = -weight (target log(self) + (1 - target) log(1 - self)), logarithms not below -100",
        ("reduction",),
        "binary_cross_entropy",
        "binary_cross_entropy.out",
    ),
    loss(
        "binary_cross_entropy_backward",
        ("grad_output", *PAIR, "weight"),
        "the gradient of binary_cross_entropy",
        ("reduction",),
        "binary_cross_entropy_backward",
        "binary_cross_entropy_backward.grad_input",
    ),
    Op(
        "nll_loss",
        "custom",
        (*PAIR, "weight"),
        "out, total_weight: -weight[target] self[target], and the sum of the weights used",
        {"nll_loss_forward": Overload(), "nll_loss2d_forward": OWN, "nll_loss2d_forward.output": OWN},
        attributes=("reduction", "ignore_index"),
    ),
    Op(
        "nll_loss_backward",
        "custom",
        ("grad_output", *PAIR, "weight", "total_weight"),
        "the gradient of nll_loss",
        {"nll_loss_backward": Overload(), "nll_loss2d_backward": OWN, "nll_loss2d_backward.grad_input": OWN},
        attributes=("reduction", "ignore_index"),
    ),
    loss(
        "multi_margin_loss",
        (*PAIR, "weight"),
        "out = the mean over the other classes j of weight[target] max(0, margin - self[target] + self[j])^p",
        ("p", "margin", "reduction"),
        "multi_margin_loss",
        "multi_margin_loss.out",
    ),
    loss(
        "multi_margin_loss_backward",
        ("grad_output", *PAIR, "weight"),
        "the gradient of multi_margin_loss",
        ("p", "margin", "reduction"),
        "multi_margin_loss_backward",
        "multi_margin_loss_backward.grad_input",
    ),
    loss(
        "multilabel_margin_loss",
        PAIR,
        "out, is_target: the mean over classes of max(0, 1 - self[target] + self[other])",
        ("reduction",),
        "multilabel_margin_loss_forward",
        "multilabel_margin_loss_forward.output",
    ),
    loss(
        "multilabel_margin_loss_backward",
        ("grad_output", *PAIR, "is_target"),
        "the gradient of multilabel_margin_loss",
        ("reduction",),
        "multilabel_margin_loss_backward",
        "multilabel_margin_loss_backward.grad_input",
    ),
)
