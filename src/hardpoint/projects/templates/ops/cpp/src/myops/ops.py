"""The operators as torch sees them are in csrc/torch_ops.cpp; loading it registers them."""

from myops import kernels  # noqa: F401  (loads TVM-FFI, and registers what the operators call)

# isort: split
from myops import _C

silu_mul = _C.silu_mul
