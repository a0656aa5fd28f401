"""The work of one program, spread over the work-items of a group.

All work-items run the same control flow and hold the same scalars. Tiles are in memory that they share. A nest of
loops becomes one loop over its elements, of which each work-item takes every n-th; a barrier follows it.

Loops count in steps of the group, and the work-item's number is added inside: compilers for CPUs then see that all
work-items take the same number of steps, and vectorize over them.
"""

from __future__ import annotations

import math

from hardpoint.triton.nest import UNKNOWN, Loop, Nest

#: Number of this work-item in its group.
ITEM = "lid"


def open_loop(name: str, total: int, group: int) -> list[str]:
    """The head of a loop in which each work-item takes its share of ``total`` elements; ends with two braces."""
    if total <= group:
        guard = f"if ({ITEM} < {total}) " if total < group else ""
        return [f"{{ const hp_i32 {name} = {ITEM};", f"{guard}{{"]
    guard = f"if ({name} < {total}) " if total % group else ""
    step = f"{name}_step"
    return [
        f"for (hp_i32 {step} = 0; {step} < {total}; {step} += {group}) {{ const hp_i32 {name} = {step} + {ITEM};",
        f"{guard}{{",
    ]


def split(loops: list[Loop], number: str) -> list[str]:
    """Definitions of the variables of loops from the number of an element."""
    found, stride = [], 1
    for loop in reversed(loops):
        text = f"(hp_i32)((hp_u32){number} / {stride}u % {loop.size}u)"
        found.append(f"const hp_i32 {loop.variable} = {text};")
        stride *= loop.size
    return found[::-1]


def spread(nest: Nest, element: str, group: int) -> list[str]:
    """A nest in C; ``element`` is the name for the number of an element."""
    if not nest.loops:
        return [f"if ({ITEM} == 0) {{", *nest.body(0, UNKNOWN), "}"]
    total = math.prod(loop.size for loop in nest.loops)
    lines = ["{", *nest.body(0, UNKNOWN), *open_loop(element, total, group)]
    for depth, definition in enumerate(split(nest.loops, element), 1):
        lines += [definition, *nest.body(depth, UNKNOWN)]
    return [*lines, "}}}"]
