"""Reductions and their gradients."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "sum": {"sum": PLAIN},
    "mean": {"mean": PLAIN, "mean_all": PLAIN},
}

COMPOSED = ("sum_grad", "mean_grad", "mean_all_grad")
