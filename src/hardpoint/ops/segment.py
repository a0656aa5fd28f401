"""Reductions of runs of rows."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "segment_reduce",
        "custom",
        ("data", "offsets"),
        "out = the reduction of each segment of a dimension; reduce 0: max, 1: mean, 2: min, 3: sum, 4: prod",
        {"segment_reduce": Overload()},
        attributes=("reduce", "axis", "has_initial", "initial"),
    ),
    Op(
        "segment_reduce_backward",
        "custom",
        ("grad", "output", "data", "offsets"),
        "out = the gradient of data, which comes as zeros",
        {"_segment_reduce_backward": Overload()},
        attributes=("reduce", "axis", "initial"),
    ),
)
