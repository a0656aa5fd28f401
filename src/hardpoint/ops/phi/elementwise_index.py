"""Mixed indexing with tensors and slices, as encoded by Paddle's Python code."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    *("index_elementwise_get", "index_elementwise_get_grad"),
    *("index_elementwise_put", "index_elementwise_put_with_tensor"),
)
