"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "softmax",
        "custom",
        ("self",),
        "out = exp(self) / sum(exp(self)) along a dimension",
        {"_softmax": Overload()},
        attributes=("dim",),
    ),
    Op(
        "log_softmax",
        "custom",
        ("self",),
        "out = log(softmax(self)) along a dimension",
        {"_log_softmax": Overload()},
        attributes=("dim",),
    ),
    Op(
        "softmax_backward",
        "custom",
        ("grad_output", "output"),
        "the gradient of softmax",
        {"_softmax_backward_data": Overload()},
        attributes=("dim",),
    ),
    Op(
        "log_softmax_backward",
        "custom",
        ("grad_output", "output"),
        "the gradient of log_softmax",
        {"_log_softmax_backward_data": Overload()},
        attributes=("dim",),
    ),
    Op(
        "logsumexp",
        "custom",
        ("self",),
        "out = log(sum(exp(self))) along the last dimension",
        {"logsumexp": Overload(composite=True), "logsumexp.out": Overload(composite=True)},
    ),
    Op(
        "masked_softmax",
        "custom",
        ("self", "mask"),
        "softmax over the elements that mask leaves out",
        {"_masked_softmax": Overload()},
        attributes=("dim",),
    ),
    Op(
        "masked_softmax_backward",
        "custom",
        ("grad_output", "output", "mask"),
        "the gradient of masked_softmax",
        {"_masked_softmax_backward": Overload()},
        attributes=("dim",),
    ),
)
