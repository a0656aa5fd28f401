"""Slices that differ."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "unique_dim",
        "custom",
        ("self",),
        "out, inverse, counts = the different slices along a dimension in order, which of them each slice is, and how "
        "often it occurs",
        {"unique_dim": Overload()},
        attributes=("dim",),
    ),
    Op(
        "unique_dim_consecutive",
        "custom",
        ("self",),
        "out, inverse, counts = the same of neighbours, in the order of self",
        {"unique_dim_consecutive": Overload()},
        attributes=("dim",),
    ),
)
