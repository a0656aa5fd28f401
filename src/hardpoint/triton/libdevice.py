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


#: Letters in signatures. T is float32 or float64; the name in C then ends with the type.
KINDS = {"i": "int32", "u": "uint32", "l": "int64", "U": "uint64", "f": "fp32", "d": "fp64"}


class Signature(NamedTuple):
    """A function of libdevice: its name in C after ``hp_``, and its types."""

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
DIRECTIONS = ("rz", "rd", "ru")
#: Functions in libdevice.h, by name: one for each combination of types.
OTHERS: dict[str, tuple[Signature, ...]] = {
    **{
        f"{name}_{way}": (Signature(f"ld_{name}_{way}", "T" * arity),)
        for name, arity in (("add", 2), ("sub", 2), ("mul", 2), ("div", 2), ("rcp", 1), ("sqrt", 1), ("fma", 3))
        for way in DIRECTIONS
    },
    **{
        f"{source}2{name}_{way}": (Signature(f"ld_to_{kind}_{way}_f{bits}", letter, result),)
        for source, letter, bits in (("float", "f", 32), ("double", "d", 64))
        for name, kind, result in (("int", "i32", "i"), ("uint", "u32", "i"), ("ll", "i64", "l"), ("ull", "u64", "l"))
        for way in ("rn", *DIRECTIONS)
    },
    **{
        f"{name}2{result}_{way}": (Signature(f"ld_from_{kind}_{way}_f{bits}", letter, result[0]),)
        for result, bits in (("float", 32), ("double", 64))
        for name, kind, letter in (("int", "i64", "i"), ("uint", "i64", "u"), ("ll", "i64", "l"), ("ull", "u64", "U"))
        for way in ("rn", *DIRECTIONS)
        if way == "rn" or result == "float" or letter in "lU"  # every int32 is a float64
    },
    **{f"double2float_{way}": (Signature(f"ld_narrow_{way}", "d", "f"),) for way in ("rn", *DIRECTIONS)},
    **{name: (Signature(f"ld_{name}", "TT"),) for name in ("remainder", "rhypot")},
    **{name: (Signature(f"ld_{name}"),) for name in ("sinpi", "cospi", "rcbrt", "logb", "erfcinv")},
    **{f"{stem}norm{n}d": (Signature(f"ld_{stem}norm{n}d", "T" * n),) for stem in ("", "r") for n in (3, 4)},
    **{f"{name}_as_float": (Signature("ld_from_bits_f32", kind, "f"),) for name, kind in (("int", "i"), ("uint", "u"))},
    **{f"float_as_{name}": (Signature("ld_bits_f32", "f", "i"),) for name in ("int", "uint")},
    "longlong_as_double": (Signature("ld_from_bits_f64", "l", "d"),),
    "double_as_longlong": (Signature("ld_bits_f64", "d", "l"),),
    "hiloint2double": (Signature("ld_from_words", "ii", "d"),),
    "double2loint": (Signature("ld_low_word", "d", "i"),),
    "double2hiint": (Signature("ld_high_word", "d", "i"),),
    "saturatef": (Signature("ld_saturate", "f", "f"),),
    "llround": (Signature("ld_llround", result="l"),),
    "rsqrt_rn": (Signature("rsqrt"),),
    "scalbn": (Signature("ldexp_int", "Ti"),),
    "pow": (Signature("pow", "TT"), Signature("ld_powi", "Ti")),
    "abs": (Signature("abs"), Signature("ld_abs_i32", "i", "i"), Signature("ld_abs_i64", "l", "l")),
    **{
        name: (Signature(f"ld_{name}_32", "i", "i"), Signature(f"ld_{name}_64", "l", "i"))
        for name in ("clz", "popc", "ffs")
    },
    "brev": (Signature("ld_brev_32", "i", "i"), Signature("ld_brev_64", "l", "l")),
    "byte_perm": (Signature("ld_byte_perm", "iii", "i"),),
    **{
        name: (Signature(f"ld_{name}_i32", "ii", "i"), Signature(f"ld_{name}_u32", "uu", "u"))
        for name in ("mul24", "hadd", "rhadd")
    },
    "sad": (Signature("ld_sad_i32", "iiu", "i"), Signature("ld_sad_u32", "uuu", "u")),
    "mulhi": tuple(
        Signature(f"ld_mulhi_{kind}", letter * 2, letter)
        for kind, letter in (("i32", "i"), ("u32", "u"), ("i64", "l"), ("u64", "U"))
    ),
}
#: Not available: a kernel that calls one is refused, one that only imports the module is not.
MISSING = {"jn": "iT", "yn": "iT", "rcp64h": "d"}
#: Approximations on NVIDIA, for float32 only.
FAST = {f"fast_{name}f": name for name in ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "pow")}
FAST["fast_dividef"] = "div_rn"
#: From math_special.h, which compiles slowly: included only where one of them is used.
SPECIAL = ("erfcx", "erfinv", "lgamma", "ndtri", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "i0", "i1")
#: Prefix in C of the functions in libdevice.h.
EXTRA = "hp_ld_"


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
    variants = OTHERS.get(name, ())
    if len(variants) == 1 and "T" not in variants[0].arguments:
        return f"hp_{variants[0].name}"
    return None


def uses_special(source: str) -> bool:
    """Whether a kernel calls a function of math_special.h."""
    return any(f"hp_{name}_f" in source for name in (*SPECIAL, "ld_erfcinv"))


@functools.cache
def module() -> types.ModuleType:
    """The module that replaces ``triton.language.extra.libdevice`` inside kernels."""
    made = types.ModuleType("hardpoint.triton.libdevice_functions", "libdevice's functions on a mounted device.")
    for name, signature in SIGNATURES.items():
        setattr(made, name, _extern(name, (signature,)))
    for name, signatures in OTHERS.items():
        setattr(made, name, _extern(name, signatures))
    for name, words in MISSING.items():
        setattr(made, name, _extern(name, (Signature("", words),)))
    for name, function in FAST.items():
        setattr(made, name, _extern(name, (SIGNATURES[function],), ("f",)))
    return made


def _extern(name: str, signatures: tuple[Signature, ...], floats: tuple[str, ...] = ("f", "d")) -> Callable[..., Any]:
    from triton.language import core as tl  # not above: Triton imports its backends while it is being imported

    variants = {}
    for signature in signatures:
        words = signature.arguments + signature.result
        for letter in floats if "T" in words else ("",):
            kinds = [tl.dtype(KINDS[letter if word == "T" else word]) for word in words]
            symbol = f"hp_{signature.name}" + (f"_f{32 if letter == 'f' else 64}" if letter else "")
            variants[tuple(kinds[:-1])] = (symbol, kinds[-1])

    def call(*arguments: Any, _semantic: Any) -> Any:
        if name in MISSING:
            raise NotImplementedError(f"the function {name} is not in Hardpoint's library")
        return tl.extern_elementwise("", "", list(arguments), variants, is_pure=True, _semantic=_semantic)

    # Triton binds arguments by name, so that each arity needs a signature of its own.
    def unary(arg0: Any, _semantic: Any = None) -> Any:
        return call(arg0, _semantic=_semantic)

    def binary(arg0: Any, arg1: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, _semantic=_semantic)

    def ternary(arg0: Any, arg1: Any, arg2: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, arg2, _semantic=_semantic)

    def quaternary(arg0: Any, arg1: Any, arg2: Any, arg3: Any, _semantic: Any = None) -> Any:
        return call(arg0, arg1, arg2, arg3, _semantic=_semantic)

    function = (unary, binary, ternary, quaternary)[len(signatures[0].arguments) - 1]
    function.__name__ = name
    extern: Callable[..., Any] = tl.extern(function)
    return extern
