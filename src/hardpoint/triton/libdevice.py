"""Triton's ``libdevice`` on any device: its functions by the names of Hardpoint's portable math."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

UNARY = (
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "floor",
    "ceil",
    "trunc",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
)
#: libdevice's name -> Hardpoint's.
RENAMED = {
    "abs": "abs",
    "fabs": "abs",
    "nearbyint": "round",
    "rint": "round",
    "j0": "bessel_j0",
    "j1": "bessel_j1",
    "y0": "bessel_y0",
    "y1": "bessel_y1",
    "cyl_bessel_i0": "i0",
    "cyl_bessel_i1": "i1",
}
BINARY = ("pow", "fmod", "atan2", "hypot", "copysign", "nextafter")
TERNARY = ("fma",)
TESTS = {"isnan": "isnan", "isinf": "isinf", "finitef": "isfinite", "isfinited": "isfinite", "signbit": "signbit"}
#: From math_special.h, which compiles slowly: included only where one of them is used.
SPECIAL = ("erfinv", "lgamma", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "i0", "i1")

NAMES = {**{name: name for name in (*UNARY, *BINARY, *TERNARY)}, **RENAMED, **TESTS}


def c_function(symbol: str) -> str | None:
    """The C function for a symbol: ours (``hp_exp_f32``), or one of NVIDIA's libdevice (``__nv_expf``)."""
    if symbol.startswith("hp_"):
        return symbol
    name = symbol.removeprefix("__nv_")
    if name in NAMES:
        return f"hp_{NAMES[name]}_f64"
    if name.endswith("f") and name[:-1] in NAMES:
        return f"hp_{NAMES[name[:-1]]}_f32"
    return None


def uses_special(source: str) -> bool:
    """Whether a kernel calls a function of math_special.h."""
    return any(f"hp_{name}_f" in source for name in SPECIAL)


@functools.cache
def module() -> types.ModuleType:
    """The module that stands for ``triton.language.extra.libdevice`` inside of kernels."""
    from triton.language import core as tl  # not above: Triton imports its backends while it is being imported

    made = types.ModuleType("hardpoint.triton.libdevice_functions", "libdevice's functions on a mounted device.")
    for name, ours in NAMES.items():
        count = 2 if name in BINARY else 3 if name in TERNARY else 1
        variants = {}
        for kind, suffix in (("fp32", "f32"), ("fp64", "f64")):
            result = tl.dtype("int32") if name in TESTS else tl.dtype(kind)
            variants[(tl.dtype(kind),) * count] = (f"hp_{ours}_{suffix}", result)
        setattr(made, name, _extern(name, variants, count))
    return made


def _extern(name: str, variants: dict[Any, Any], count: int) -> Callable[..., Any]:
    from triton.language import core as tl

    def call(*arguments: Any, _semantic: Any) -> Any:
        return tl.extern_elementwise("", "", list(arguments), variants, is_pure=True, _semantic=_semantic)

    # Triton binds arguments by name, so that each arity needs a signature of its own.
    def unary(arg0: Any, _semantic: Any = None) -> Any:
        return call(arg0, _semantic=_semantic)

    def binary(arg0: Any, arg1: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, _semantic=_semantic)

    def ternary(arg0: Any, arg1: Any, arg2: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, arg2, _semantic=_semantic)

    function = (unary, binary, ternary)[count - 1]
    function.__name__ = name
    extern: Callable[..., Any] = tl.extern(function)
    return extern
