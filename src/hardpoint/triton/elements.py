"""C expressions for single elements: what one lane of an elementwise operation computes."""

from __future__ import annotations

import re

from hardpoint.triton import dtypes
from hardpoint.triton.dtypes import register, rounded, suffix, unsigned
from hardpoint.triton.ir import Op
from hardpoint.triton.libdevice import c_function

SIGNED = {"slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "eq": "==", "ne": "!="}
UNSIGNED = {"ult": "<", "ule": "<=", "ugt": ">", "uge": ">="}
FLOAT_COMPARISONS = {
    "false": "0",
    "true": "1",
    "oeq": "{0} == {1}",
    "ogt": "{0} > {1}",
    "oge": "{0} >= {1}",
    "olt": "{0} < {1}",
    "ole": "{0} <= {1}",
    "one": "({0} < {1} || {0} > {1})",
    "ord": "({0} == {0} && {1} == {1})",
    "uno": "({0} != {0} || {1} != {1})",
    "ueq": "!({0} < {1} || {0} > {1})",
    "une": "{0} != {1}",
    "ugt": "!({0} <= {1})",
    "uge": "!({0} < {1})",
    "ult": "!({0} >= {1})",
    "ule": "!({0} > {1})",
}
FLOAT_SIGNS = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/", "precise_divf": "/"}
WRAPPING_SIGNS = {"addi": "+", "subi": "-", "muli": "*"}
BIT_SIGNS = {"andi": "&", "ori": "|", "xori": "^"}
#: On i1, arithmetic modulo 2.
BOOL_SIGNS = {"addi": "^", "subi": "^", "muli": "&", **BIT_SIGNS}
DIVISIONS = {"divsi": "/", "divui": "/", "remsi": "%", "remui": "%"}
SHIFTS = {"shli": "<<", "shrui": ">>", "shrsi": ">>"}
#: Operation -> function of math.h where the names differ.
MATH = {
    "absf": "abs",
    "roundeven": "round",
    "maxnumf": "fmax",
    "minnumf": "fmin",
    "maximumf": "maximum",
    "minimumf": "minimum",
    "precise_sqrt": "sqrt",
    "remf": "fmod",
    "powf": "pow",
}
#: All other functions of the dialect `math` in TTIR have the same name in math.h.
PLAIN_MATH = frozenset(
    [
        "ceil",
        "copysign",
        "cos",
        "cosh",
        "erf",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "fma",
        "log",
        "log10",
        "log1p",
        "log2",
        "rsqrt",
        "sin",
        "sinh",
        "sqrt",
        "tan",
        "tanh",
        "trunc",
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
    ]
)


def constant(op: Op) -> str:
    """The value of a constant, or of every element of a constant tensor."""
    element = op.result.type.element
    if op.kind == "ub.poison":
        return "0"
    text = op.modifiers.removeprefix("dense<").removesuffix(">")
    if text.startswith("["):
        raise op.unsupported("a constant tensor with different elements")
    return dtypes.literal(text, element)


def expression(op: Op, given: list[str], wraps: bool) -> str:
    """The value of one element from those of the operands.

    Args:
        op: An elementwise operation.
        given: C expressions of the operands' elements: names or parenthesized.
        wraps: Whether integer arithmetic may wrap around. It must not for addresses, so that C sees which elements are
            neighbors.
    """
    kind = op.kind.partition(".")[2]
    to = op.result.type.element
    source = op.operands[0].type.element
    if kind == "addptr":
        return f"({given[0]} + {given[1]})"
    if kind == "select":
        return f"({given[0]} ? {given[1]} : {given[2]})"
    if kind in ("cmpi", "cmpf"):
        return _comparison(op, source, given)
    if kind in FLOAT_SIGNS:
        return rounded(to, f"({given[0]} {FLOAT_SIGNS[kind]} {given[1]})")
    if kind == "negf":
        return f"(-{given[0]})"
    if kind == "bitcast":
        return _bitcast(source, to, given[0])
    if kind in ("int_to_ptr", "ptr_to_int"):
        macro = "HP_TO_POINTER" if kind == "int_to_ptr" else "HP_TO_NUMBER"
        return f"(({register(to)}){macro}({given[0]}))"
    if (found := _integer(kind, to, given, wraps)) is not None:
        return found
    if (found := _conversion(op, kind, source, to, given[0])) is not None:
        return found
    if kind == "clampf":
        low, high = ("fmax", "fmin") if "none" in op.modifiers else ("maximum", "minimum")
        inner = f"hp_{low}_{suffix(to)}({given[0]}, {given[1]})"
        return rounded(to, f"hp_{high}_{suffix(to)}({inner}, {given[2]})")
    arguments = ", ".join(given)
    if kind == "extern_elementwise":
        symbol = op.attributes["symbol"].strip('"')
        function = c_function(symbol)
        if function is None:
            raise op.unsupported(f"the function {symbol} is not in Hardpoint's library")
        return rounded(to, f"{function}({arguments})")
    if kind in MATH or kind in PLAIN_MATH:
        return rounded(to, f"hp_{MATH.get(kind, kind)}_{suffix(to)}({arguments})")
    raise op.unsupported()


def _comparison(op: Op, source: str, given: list[str]) -> str:
    word = op.keyword()
    if op.kind == "arith.cmpf":
        return f"({FLOAT_COMPARISONS[word].format(*given)})"
    if word in UNSIGNED:
        cast = unsigned(source)
        return f"(({cast}){given[0]} {UNSIGNED[word]} ({cast}){given[1]})"
    if source == "i1" and word not in ("eq", "ne"):  # as signed integers, true is -1
        given = [given[1], given[0]]
    return f"({given[0]} {SIGNED[word]} {given[1]})"


def _bitcast(source: str, to: str, value: str) -> str:
    if source.startswith("*") or to.startswith("*") or not (dtypes.is_float(source) or dtypes.is_float(to)):
        return f"(({register(to)}){value})"
    bits = f"hp_bits_{source}({value})" if source in ("f32", "f64") else dtypes.encode(source, value)
    if to in ("f32", "f64"):
        return f"hp_from_bits_{to}({bits})"
    return f"hp_load_{to}({bits})" if to in dtypes.NARROW else f"(({register(to)}){bits})"


def _integer(kind: str, to: str, given: list[str], wraps: bool) -> str | None:
    if to.startswith("*") or dtypes.is_float(to):
        return None
    word, cast = register(to), f"({unsigned(to)})"
    if to == "i1" and kind in BOOL_SIGNS:
        return f"({given[0]} {BOOL_SIGNS[kind]} {given[1]})"
    if kind in BIT_SIGNS:
        return f"(({word})({given[0]} {BIT_SIGNS[kind]} {given[1]}))"
    if kind in WRAPPING_SIGNS:
        if wraps:
            return f"(({word})({cast}{given[0]} {WRAPPING_SIGNS[kind]} {cast}{given[1]}))"
        return f"({given[0]} {WRAPPING_SIGNS[kind]} {given[1]})"
    if kind in DIVISIONS:
        return f"(({word})({_division(kind, to, given)}))"
    if kind in SHIFTS:
        return f"(({word})({'' if kind == 'shrsi' else cast}{given[0]} {SHIFTS[kind]} {given[1]}))"
    if kind in ("maxsi", "minsi", "maxui", "minui"):
        cast = cast if kind[3] == "u" else ""
        sign = ">" if kind.startswith("max") else "<"
        return f"({cast}{given[0]} {sign} {cast}{given[1]} ? {given[0]} : {given[1]})"
    if kind == "absi":
        return f"(({word})({given[0]} < 0 ? 0 - {cast}{given[0]} : {cast}{given[0]}))"
    if kind == "mulhiui":
        return f"(({word})hp_mulhi_u{to[1:]}({cast}{given[0]}, {cast}{given[1]}))"
    return None


def _division(kind: str, to: str, given: list[str]) -> str:
    """A division without traps: lanes that a mask turns off divide too, and by anything."""
    value, divisor = given
    if kind[3] == "u":
        value, divisor = f"({unsigned(to)}){value}", f"({unsigned(to)}){divisor}"
    text = f"{value} {DIVISIONS[kind]} {divisor}"
    if re.fullmatch(r"\(\(\w+\)[1-9]\d*l?\)", given[1]):  # a positive constant
        return text
    if kind.endswith("si"):  # the smallest number by -1 traps like a division by zero
        text = f"{divisor} == -1 ? {f'0 - ({unsigned(to)}){value}' if kind == 'divsi' else '0'} : {text}"
    return f"!{given[1]} ? 0 : {text}"


def _conversion(op: Op, kind: str, source: str, to: str, value: str) -> str | None:
    word = register(to)
    if kind in ("uitofp", "sitofp") and source == "i1":  # gcc does not vectorize conversions of comparisons to floats
        return f"(({word})({value} ? {1 if kind == 'uitofp' else -1}.0f : 0.0f))"
    if kind in ("extui", "uitofp", "index_castui"):
        return rounded(to, f"(({word})({unsigned(source)}){value})")
    if kind in ("extsi", "sitofp", "index_cast"):
        return rounded(to, f"(({word}){'-' if source == 'i1' else ''}{value})")
    if kind == "trunci":
        return f"({value} & 1)" if to == "i1" else f"(({word}){value})"
    if kind == "fptosi":
        return f"(({word}){value})"
    if kind == "fptoui":
        return f"(({word})({unsigned(to)}){value})"
    if kind in ("extf", "truncf", "fp_to_fp"):
        if "rtz" in op.modifiers:
            return f"hp_load_{to}(hp_truncate_{to}({value}))" if to in dtypes.NARROW else f"(({word}){value})"
        return rounded(to, f"(({word}){value})")
    return None
