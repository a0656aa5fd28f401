"""Distances between rows."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "cdist",
        "custom",
        ("x1", "x2"),
        "out = the distance by the p-norm of each row of x1 and each row of x2, batch by batch",
        {"_cdist_forward": Overload()},
        attributes=("p",),
    ),
    Op(
        "cdist_backward",
        "custom",
        ("grad", "x1", "x2", "cdist"),
        "out = the gradient of x1",
        {"_cdist_backward": Overload()},
        attributes=("p",),
    ),
    Op(
        "pdist",
        "custom",
        ("self",),
        "out = the distance by the p-norm of each row and each later one",
        {"_pdist_forward": Overload()},
        attributes=("p",),
    ),
    Op(
        "pdist_backward",
        "custom",
        ("grad", "self", "pdist"),
        "out = the gradient of self",
        {"_pdist_backward": Overload()},
        attributes=("p",),
    ),
)
