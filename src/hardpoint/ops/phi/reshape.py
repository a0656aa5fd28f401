"""Other shapes for the same elements, and parts of complex numbers."""

from hardpoint.ops.phi import Kernels

KERNELS: Kernels = {}

#: Copies.
COMPOSED = (
    *("squeeze", "squeeze_with_xshape", "squeeze_grad", "unsqueeze", "unsqueeze_with_xshape", "unsqueeze_grad"),
    *("as_complex", "as_real", "real", "imag", "real_grad", "imag_grad", "complex", "complex_grad"),
)
