"""Sorting."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {"topk": {"topk": PLAIN}, "sort": {"argsort": PLAIN}}

COMPOSED = ("topk_grad", "argsort_grad")
