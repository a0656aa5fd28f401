"""Loads csrc/torch_ops.cpp, which registers the operators with torch."""

from myops import kernels  # noqa: F401  (loads TVM-FFI and registers the kernels)

# isort: split
from myops import _C

silu_mul = _C.silu_mul
