"""Reductions and their gradients."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "sum": {"sum": PLAIN, "sum_raw": PLAIN, "reduce_as": PLAIN},
    "nansum": {"nansum": PLAIN},
    "mean": {"mean": PLAIN, "mean_all": PLAIN, "mean_raw": PLAIN},
    "prod": {"prod": PLAIN, "prod_infer": PLAIN},
    "amax": {"max": PLAIN, "amax": PLAIN},
    "amin": {"min": PLAIN, "amin": PLAIN},
    "any": {"any": PLAIN},
    "all": {"all": PLAIN},
    "vector_norm": {"p_norm": PLAIN, "frobenius_norm": PLAIN, "l1_norm": PLAIN},
}

COMPOSED = (
    *("sum_grad", "mean_grad", "mean_all_grad", "reduce_as_grad", "prod_grad", "logsumexp", "logsumexp_grad"),
    *("max_grad", "min_grad", "amax_grad", "amin_grad", "p_norm_grad", "frobenius_norm_grad"),
)
