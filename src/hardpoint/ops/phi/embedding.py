"""Embedding and one-hot."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "embedding": {"embedding": PLAIN},
    "embedding_dense_backward": {"embedding_grad": PLAIN},
}

COMPOSED = ("one_hot",)
