"""Gradients of pointwise operators that are kernels in Paddle."""

from __future__ import annotations

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: Gradient of a binary function -> operators for x and for y, which take the gradient, x and y.
PAIRS = {
    "maximum_grad": ("maximum_backward_self", "maximum_backward_other"),
    "minimum_grad": ("minimum_backward_self", "minimum_backward_other"),
    "fmax_grad": ("fmax_backward_self", "fmax_backward_other"),
    "fmin_grad": ("fmin_backward_self", "fmin_backward_other"),
    "elementwise_pow_grad": ("pow_backward_self", "pow_backward_other"),
    "atan2_grad": ("atan2_backward_self", "atan2_backward_other"),
}

#: Other gradients, summed over broadcast dimensions.
COMPOSED = (
    *("add_grad", "subtract_grad", "multiply_grad", "divide_grad", "where_grad", "lerp_grad"),
    *("floor_grad", "ceil_grad", "round_grad", "trunc_grad", "remainder_grad"),
)
