"""Kernels of two tensors with an attribute ``axis``, from programs in Paddle's old IR."""

from __future__ import annotations

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: Functions in csrc/paddle/ops/pointwise_axis.cpp.
COMPOSED = (
    *("add_raw", "subtract_raw", "multiply_raw", "divide_raw", "floor_divide_raw", "remainder_raw"),
    *("elementwise_pow_raw", "maximum_raw", "minimum_raw"),
    *("equal_raw", "not_equal_raw", "less_than_raw", "less_equal_raw", "greater_than_raw", "greater_equal_raw"),
)
