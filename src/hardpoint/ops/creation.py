"""Fills and copies."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "fill",
        "fill",
        (),
        "out = value everywhere",
        {"fill_.Scalar": Overload(("value",)), "zero_": Overload((0,))},
        attributes=("value",),
        expression="value",
    ),
    Op("copy", "copy", ("src",), "out = src, with any strides and dtype conversion", expression="src"),
)
