"""Fills and copies."""

from hardpoint.ops import Op

OPS = (
    Op("fill", "fill", (), "out = value everywhere", {"fill_.Scalar": ("value",), "zero_": (0,)}),
    Op("copy", "copy", ("src",), "out = src, with any strides and dtype conversion"),
)
