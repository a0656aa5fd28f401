"""Reading and writing by index."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "gather",
        "custom",
        ("self", "index"),
        "out = self at the places that index names along a dimension",
        {"gather": Overload()},
        attributes=("dim",),
    ),
    Op(
        "embedding",
        "custom",
        ("weight", "indices"),
        "out = rows of weight",
        {"embedding": Overload()},
    ),
)
