"""Writing by index. Outputs are changed in place; ``operation``: 0 sets, 1 adds, 2 multiplies, 3 maximum, 4 minimum."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "scatter",
        "custom",
        ("index", "src"),
        "writes src to the places of out that index names along a dimension",
        {"scatter.src": Overload(), "scatter.value": Overload()},
        attributes=("dim", "operation"),
    ),
    Op(
        "scatter_reduce",
        "custom",
        ("index", "src"),
        "combines src with the places of out that index names along a dimension",
        {
            "scatter_add": Overload(),
            "scatter.reduce": Overload(),
            "scatter.value_reduce": Overload(),
            "scatter_reduce.two": Overload(),
        },
        attributes=("dim", "operation"),
    ),
    Op(
        "index_add",
        "custom",
        ("index", "src"),
        "adds the slices of src to those of out that index names along a dimension",
        {"index_add": Overload()},
        attributes=("dim", "operation"),
    ),
    Op(
        "index_copy",
        "custom",
        ("index", "src"),
        "writes the slices of src to those of out that index names along a dimension",
        {"index_copy": Overload()},
        attributes=("dim", "operation"),
    ),
    Op(
        "index_reduce",
        "custom",
        ("index", "src"),
        "combines the slices of src with those of out that index names along a dimension",
        {"index_reduce": Overload()},
        attributes=("dim", "operation"),
    ),
    Op(
        "index_fill",
        "custom",
        ("index", "src"),
        "writes one value to the slices of out that index names along a dimension",
        {"index_fill_.int_Scalar": Overload(), "index_fill_.int_Tensor": Overload()},
        attributes=("dim", "operation"),
    ),
    Op(
        "index_put",
        "custom",
        ("values", "indices"),
        "writes values to the places of out that the index tensors name along its dimensions from first on",
        {"_index_put_impl_": Overload()},
        attributes=("first", "operation"),
    ),
    Op(
        "put",
        "custom",
        ("values", "index"),
        "writes values to the elements of out, counted in order, that index names",
        {"put_": Overload()},
        attributes=("first", "operation"),
    ),
    Op(
        "embedding_dense_backward",
        "custom",
        ("grad_output", "indices"),
        "adds rows of grad_output to those of out that indices names",
        {"embedding_dense_backward": Overload()},
    ),
)
