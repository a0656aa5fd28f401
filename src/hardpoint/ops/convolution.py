"""Convolutions in one to three dimensions, and their gradients."""

from hardpoint.ops import Op, Overload

ATTRIBUTES = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")

OPS = (
    Op(
        "convolution",
        "custom",
        ("input", "weight", "bias"),
        "out = input convolved with weight, ordinary or transposed, plus bias, which may be None",
        {"convolution_overrideable": Overload(takes_all=True)},
        attributes=ATTRIBUTES,
    ),
    Op(
        "convolution_backward",
        "custom",
        ("grad_output", "input", "weight"),
        "the gradients of a convolution, by the two kernels below",
        {"convolution_backward_overrideable": Overload(takes_all=True)},
        attributes=ATTRIBUTES,
    ),
    Op(
        "convolution_backward_input",
        "custom",
        ("grad_output", "weight"),
        "out = the gradient of a convolution's input",
        attributes=ATTRIBUTES,
    ),
    Op(
        "convolution_backward_weight",
        "custom",
        ("grad_output", "input"),
        "out = the gradient of a convolution's weight",
        attributes=ATTRIBUTES,
    ),
)
