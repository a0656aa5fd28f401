"""The sources of portable kernels, for a device's dialect and size of groups. Needs nothing that is compiled."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from hardpoint import ops
from hardpoint.kernels import fused, pointwise, template
from hardpoint.ops.reduction import RULES


@functools.cache
def preamble(special: bool = False, complex_numbers: bool = False) -> str:
    """What every kernel starts with; what few kernels use is there for those only, since it takes time to compile."""
    extra = ["math_special.h"] * special + ["math_complex.h"] * complex_numbers
    return "\n".join(map(text_of, ["math.h", *extra, "dialect.h"]))


def text_of(name: str) -> str:
    """A file of this folder with its includes put in: devices compile one text, not files."""
    text = (Path(__file__).parent / name).read_text()
    return re.sub(r'^#include "(\w+\.h)"$', lambda found: text_of(found[1]), text, flags=re.M)


def generate(name: str, description: str, dialect: str, group_size: int) -> tuple[str, str, int] | None:
    """The source of a kernel, its name, and elements a group; None if there is no such kernel.

    The name is that of a standard operator with an expression in the tables, or ``family:kernel`` for one of the
    families' own files; ``family:kernel@rule`` is one that reduces by a rule; ``fused`` is a region of pointwise ones.
    """
    family, _, kernel = name.partition(":")
    if kernel:
        kernel, _, rule = kernel.partition("@")
        text = (template.rule_definitions(RULES[rule]) if rule else "") + text_of(f"{family}.c")
        code, entry, elements = template.source(family, text, kernel, description, dialect, group_size)
        return preamble(complex_numbers="c64" in description or "c128" in description) + code, entry, elements
    places = text_of("places.h") if group_size > 1 else ""
    if name == "fused":
        return fused.source(description, dialect, group_size, preamble(_uses_special(description)) + places)
    op = ops.find(name)
    spec = pointwise.Specialisation.parse(description)
    text = pointwise.expression(op, spec) or ""
    head = preamble(_is_special(text), pointwise.is_complex(spec)) + places
    return pointwise.source(op, spec, dialect, group_size, head)


def _is_special(expression: str) -> bool:
    from hardpoint.ops import special

    return any(f"M({op.name})" in expression for op in special.OPS)


def _uses_special(region: str) -> bool:
    from hardpoint.ops import special

    return any(f'"{op.name}"' in region for op in special.OPS)
