"""Selection by value."""

from hardpoint.ops.phi import PLAIN, Kernels

KERNELS: Kernels = {
    "nonzero": {"nonzero": PLAIN},
    "masked_select": {"masked_select": PLAIN},
    "searchsorted": {"searchsorted": PLAIN},
    "tril_indices": {"tril_indices": PLAIN},
    "triu_indices": {"triu_indices": PLAIN},
}

COMPOSED = ("masked_select_grad", "masked_fill_grad", "unique")
