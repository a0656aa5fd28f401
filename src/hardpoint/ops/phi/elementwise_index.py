"""Indexing with tensors and slices at once, as Paddle's Python side describes it."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    *("index_elementwise_get", "index_elementwise_get_grad"),
    *("index_elementwise_put", "index_elementwise_put_with_tensor"),
)
