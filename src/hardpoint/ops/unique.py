"""Distinct slices."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "unique_dim(self; dim)",
        "out, inverse, counts = sorted distinct slices along a dimension, index of each slice, and occurrences",
        "unique_dim",
    ),
    custom_op(
        "unique_dim_consecutive(self; dim)",
        "out, inverse, counts = the same for consecutive slices, in the order of self",
        "unique_dim_consecutive",
    ),
)
