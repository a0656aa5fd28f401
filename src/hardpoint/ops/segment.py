"""Segmented reductions."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "segment_reduce(data, offsets; reduce, axis, has_initial, initial)",
        "out = reduction of each segment of a dimension; reduce 0: max, 1: mean, 2: min, 3: sum, 4: prod",
        "segment_reduce",
    ),
    custom_op(
        "segment_reduce_backward(grad, output, data, offsets; reduce, axis, initial)",
        "out = gradient of data; zero on entry",
        "_segment_reduce_backward",
    ),
)
