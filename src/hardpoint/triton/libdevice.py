"""Triton's ``libdevice`` on any device: its functions by the names of Hardpoint's portable math."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, NamedTuple

#: Functions of one floating-point number that have the same name in math.h.
UNARY = (
    *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "floor", "ceil", "trunc"),
    *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
    *("erf", "erfc", "erfcx", "erfinv", "lgamma", "cbrt", "exp10", "tgamma"),
)


class Signature(NamedTuple):
    """A function of libdevice: its name in C, and its types: T, the floating-point type; i, int32; l, int64."""

    name: str
    arguments: str = "T"
    result: str = "T"


SIGNATURES: dict[str, Signature] = {
    **{name: Signature(name) for name in UNARY},
    "abs": Signature("abs"),
    "fabs": Signature("abs"),
    "nearbyint": Signature("round"),
    "rint": Signature("round"),
    "round": Signature("round_away"),
    "normcdf": Signature("ndtr"),
    "normcdfinv": Signature("ndtri"),
    "sqrt_rn": Signature("sqrt"),
    "rcp_rn": Signature("reciprocal"),
    "j0": Signature("bessel_j0"),
    "j1": Signature("bessel_j1"),
    "y0": Signature("bessel_y0"),
    "y1": Signature("bessel_y1"),
    "cyl_bessel_i0": Signature("i0"),
    "cyl_bessel_i1": Signature("i1"),
    **{name: Signature(name, "TT") for name in ("pow", "fmod", "atan2", "hypot", "copysign", "nextafter", "fdim")},
    **{f"{name}_rn": Signature(f"{name}_rn", "TT") for name in ("add", "sub", "mul", "div")},
    "fma": Signature("fma", "TTT"),
    "fma_rn": Signature("fma", "TTT"),
    "ldexp": Signature("ldexp_int", "Ti"),
    "isnan": Signature("isnan", result="i"),
    "isinf": Signature("isinf", result="i"),
    "finitef": Signature("isfinite", result="i"),
    "isfinited": Signature("isfinite", result="i"),
    "signbit": Signature("signbit", result="i"),
    "ilogb": Signature("ilogb", result="i"),
    "llrint": Signature("llrint", result="l"),
}
#: Less exact on NVIDIA, for float32 only.
FAST = {f"fast_{name}f": name for name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "pow")}
FAST["fast_dividef"] = "div_rn"
#: From math_special.h, which compiles slowly: included only where one of them is used.
SPECIAL = ("erfcx", "erfinv", "lgamma", "ndtri", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "i0", "i1")


def c_function(symbol: str) -> str | None:
    """The C function for a symbol: ours (``hp_exp_f32``), or one of NVIDIA's libdevice (``__nv_expf``)."""
    if symbol.startswith("hp_"):
        return symbol
    name = symbol.removeprefix("__nv_")
    if name in FAST:
        return f"hp_{SIGNATURES[FAST[name]].name}_f32"
    if name in SIGNATURES:
        return f"hp_{SIGNATURES[name].name}_f64"
    if name.endswith("f") and name[:-1] in SIGNATURES:
        return f"hp_{SIGNATURES[name[:-1]].name}_f32"
    return None


def uses_special(source: str) -> bool:
    """Whether a kernel calls a function of math_special.h."""
    return any(f"hp_{name}_f" in source for name in SPECIAL)


@functools.cache
def module() -> types.ModuleType:
    """The module that stands for ``triton.language.extra.libdevice`` inside of kernels."""
    made = types.ModuleType("hardpoint.triton.libdevice_functions", "libdevice's functions on a mounted device.")
    for name, signature in SIGNATURES.items():
        setattr(made, name, _extern(name, signature, ("fp32", "fp64")))
    for name, function in FAST.items():
        setattr(made, name, _extern(name, SIGNATURES[function], ("fp32",)))
    return made


def _extern(name: str, signature: Signature, kinds: tuple[str, ...]) -> Callable[..., Any]:
    from triton.language import core as tl  # not above: Triton imports its backends while it is being imported

    variants = {}
    for kind in kinds:
        words = {"T": tl.dtype(kind), "i": tl.dtype("int32"), "l": tl.dtype("int64")}
        symbol = f"hp_{signature.name}_f{kind[2:]}"
        variants[tuple(words[letter] for letter in signature.arguments)] = (symbol, words[signature.result])

    def call(*arguments: Any, _semantic: Any) -> Any:
        return tl.extern_elementwise("", "", list(arguments), variants, is_pure=True, _semantic=_semantic)

    # Triton binds arguments by name, so that each arity needs a signature of its own.
    def unary(arg0: Any, _semantic: Any = None) -> Any:
        return call(arg0, _semantic=_semantic)

    def binary(arg0: Any, arg1: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, _semantic=_semantic)

    def ternary(arg0: Any, arg1: Any, arg2: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, arg2, _semantic=_semantic)

    function = (unary, binary, ternary)[len(signature.arguments) - 1]
    function.__name__ = name
    extern: Callable[..., Any] = tl.extern(function)
    return extern
