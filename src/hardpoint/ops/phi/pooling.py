"""Pooling in two and three dimensions; which standard operator serves it depends on the attributes."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

COMPOSED = (
    "pool2d",
    "pool2d_grad",
    "pool3d",
    "pool3d_grad",
    "max_pool2d_with_index",
    "max_pool2d_with_index_grad",
    "max_pool3d_with_index",
    "max_pool3d_with_index_grad",
)
