"""Special functions."""

from hardpoint.ops.phi import PLAIN, Kernels, same

KERNELS: Kernels = {
    **same("digamma", "erfinv", "i0", "i0e", "i1", "i1e"),
    "lgamma": {"lgamma": PLAIN, "gammaln": PLAIN},
}
