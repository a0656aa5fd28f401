"""Reading by index."""

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
        "index_select",
        "custom",
        ("self", "index"),
        "out = the slices of self that index names along a dimension",
        {"index_select": Overload(), "index_select.out": Overload()},
        attributes=("dim",),
    ),
    Op(
        "take",
        "custom",
        ("self", "index"),
        "out = the elements of self, counted in order, that index names",
        {"take": Overload(), "take.out": Overload()},
    ),
    Op(
        "index",
        "custom",
        ("self", "indices"),
        "out = self at the places that the index tensors, of one shape, name along its dimensions from first on",
        {"index.Tensor": Overload(own_shape=True), "index.Tensor_out": Overload(own_shape=True)},
        attributes=("first",),
    ),
    Op(
        "embedding",
        "custom",
        ("weight", "indices"),
        "out = rows of weight",
        {"embedding": Overload()},
    ),
)
