"""Writes by index. Outputs are updated in place; ``operation``: 0 sets, 1 adds, 2 multiplies, 3 maximum, 4 minimum."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "scatter(index, src; dim, operation)",
        "writes src to out at index along a dimension",
        "scatter.src scatter.value",
    ),
    custom_op(
        "scatter_reduce(index, src; dim, operation)",
        "combines src with out at index along a dimension",
        "scatter_add scatter.reduce scatter.value_reduce scatter_reduce.two",
    ),
    custom_op(
        "index_add(index, src; dim, operation)", "adds slices of src to out at index along a dimension", "index_add"
    ),
    custom_op(
        "index_copy(index, src; dim, operation)", "writes slices of src to out at index along a dimension", "index_copy"
    ),
    custom_op(
        "index_reduce(index, src; dim, operation)",
        "combines slices of src with out at index along a dimension",
        "index_reduce",
    ),
    custom_op(
        "index_fill(index, src; dim, operation)",
        "writes a value to slices of out at index along a dimension",
        "index_fill_.int_Scalar index_fill_.int_Tensor",
    ),
    custom_op(
        "index_put(values, indices; first, operation)",
        "writes values to out at index tensors, for its dimensions from first on",
        "_index_put_impl_",
    ),
    custom_op("put(values, index; first, operation)", "writes values to the flattened out at index", "put_"),
    custom_op(
        "embedding_dense_backward(grad_output, indices)",
        "adds rows of grad_output to out at indices",
        "embedding_dense_backward",
    ),
)
