"""Reads by index."""

from hardpoint.ops import Overload, custom_op

OPS = (
    custom_op("gather(self, index; dim)", "out = self at index along a dimension", "gather"),
    custom_op(
        "index_select(self, index; dim)",
        "out = slices of self at index along a dimension",
        "index_select index_select.out",
    ),
    custom_op("take(self, index)", "out = elements of the flattened self at index", "take take.out"),
    custom_op(
        "index(self, indices; first)",
        "out = self at index tensors of one shape, for its dimensions from first on",
        "index.Tensor index.Tensor_out",
        Overload(custom_shape=True),
    ),
    custom_op("embedding(weight, indices)", "out = rows of weight", "embedding"),
)
