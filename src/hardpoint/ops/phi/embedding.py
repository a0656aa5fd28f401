"""Rows of a table, and rows with a one in them."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "embedding": {"embedding": PLAIN},
    "embedding_dense_backward": {"embedding_grad": PLAIN},
}

COMPOSED = ("one_hot",)
