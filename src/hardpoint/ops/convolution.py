"""Convolutions in one to three dimensions, and their gradients."""

from hardpoint.ops import Overload, custom_op

ATTRIBUTES = "stride, padding, dilation, transposed, output_padding, groups"

OPS = (
    custom_op(
        f"convolution(input, weight, bias; {ATTRIBUTES})",
        "out = input convolved with weight, ordinary or transposed, plus an optional bias",
        "convolution_overrideable",
        Overload(device_only=True),
    ),
    custom_op(
        f"convolution_backward(grad_output, input, weight; {ATTRIBUTES})",
        "gradients of a convolution, using the two kernels below",
        "convolution_backward_overrideable",
        Overload(device_only=True),
    ),
    custom_op(
        f"convolution_backward_input(grad_output, weight; {ATTRIBUTES})", "out = gradient of the input of a convolution"
    ),
    custom_op(
        f"convolution_backward_weight(grad_output, input; {ATTRIBUTES})",
        "out = gradient of the weight of a convolution",
    ),
)
