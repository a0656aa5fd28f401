"""Generates the source of a portable kernel for a dialect and a work-group size. Does not need the compiled core."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from hardpoint import ops
from hardpoint.kernels import fused, pointwise, template
from hardpoint.ops.reduction import RULES

FOLDER = Path(__file__).parent


@functools.cache
def preamble(special: bool = False, complex_numbers: bool = False) -> str:
    """Headers at the top of every kernel. Special and complex functions compile slowly: included only on request."""
    extra = ["math_special.h"] * special + ["math_complex.h"] * complex_numbers
    return "\n".join(map(header, ["math.h", *extra, "dialect.h"]))


def header(name: str) -> str:
    """Text of a header, includes inlined: device compilers take a single source text."""
    return _inline_includes((FOLDER / "headers" / name).read_text())


def _inline_includes(text: str) -> str:
    return re.sub(r'^#include "(\w+\.h)"$', lambda found: header(found[1]), text, flags=re.M)


def generate(name: str, description: str, dialect: str, group_size: int) -> tuple[str, str, int] | None:
    """Return the kernel's source, its entry name and the elements per work-group, or None for an unknown kernel.

    Names: ``OPERATOR`` for an expression in the operator tables, ``FAMILY:KERNEL`` for a kernel in
    ``sources/FAMILY.c``, ``FAMILY:KERNEL@RULE`` for a reduction with that rule, ``fused`` for a pointwise region.
    """
    family, _, kernel = name.partition(":")
    if kernel:
        kernel, _, rule = kernel.partition("@")
        text = _inline_includes((FOLDER / "sources" / f"{family}.c").read_text())
        text = (template.rule_definitions(RULES[rule]) if rule else "") + text
        code, entry, elements = template.source(family, text, kernel, description, dialect, group_size)
        return preamble(complex_numbers="c64" in description or "c128" in description) + code, entry, elements
    index_math = header("index_math.h") if group_size > 1 else ""
    if name == "fused":
        return fused.source(description, dialect, group_size, preamble(_uses_special(description, '"{}"')) + index_math)
    op = ops.find(name)
    spec = pointwise.Specialization.parse(description)
    text = pointwise.expression(op, spec) or ""
    head = preamble(_uses_special(text, "M({})"), pointwise.is_complex(spec)) + index_math
    return pointwise.source(op, spec, dialect, group_size, head)


@functools.cache
def _special_functions() -> tuple[str, ...]:
    """Functions of the header of special functions, which takes long to compile."""
    return tuple(re.findall(r"^HP_FN \w+ HP_F\((\w+)\)", header("math_special_template.h"), flags=re.M))


def _uses_special(text: str, form: str) -> bool:
    """Whether a text names a special function, written in the given form."""
    return any(form.format(name) in text for name in _special_functions())
