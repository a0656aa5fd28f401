"""Splits innermost loops into parts that fit the divisors of index arithmetic.

Inductor computes an element's coordinates as ``i % 64`` and ``i // 64``. Within an aligned part of 64 indices, the
first is consecutive and the second constant, so loads with such addresses are plain vector loads, not gathers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hardpoint.triton.ir import Op, Value
from hardpoint.triton.masks import MOVES, moved_index
from hardpoint.triton.nest import Index

if TYPE_CHECKING:
    from hardpoint.triton.emitter import Emitter

DIVISIONS = ("arith.divsi", "arith.remsi", "arith.divui", "arith.remui")
#: Smallest and largest part.
SMALLEST, LARGEST = 8, 64
INNER = "INNER"


def part(emitter: Emitter, values: list[Value], shape: tuple[int, ...]) -> int:
    """The size of the parts for a nest that computes these values, 0 for a plain loop."""
    if emitter.target.spreads or not shape or shape[-1] < 2 * SMALLEST:
        return 0
    index = tuple(Index(INNER if axis == len(shape) - 1 else f"OUTER{axis}") for axis in range(len(shape)))
    seen: set[tuple[Value, tuple[str, ...]]] = set()
    size = 0

    def visit(value: Value, index: tuple[Index, ...]) -> None:
        nonlocal size
        key = value, tuple(at.text for at in index)
        op = value.op
        if not value.type.shape or key in seen or op is None or value in emitter.arrays:
            return
        seen.add(key)
        if op.kind in DIVISIONS:
            number = divisor(op)
            together = math.gcd(size or LARGEST, number)
            if together >= SMALLEST and counts(emitter, op.operands[0], index, INNER, together):
                size = together
        for operand in op.operands:
            if op.kind in MOVES:
                visit(operand, moved_index(op, value, index))
            elif operand.type.shape == value.type.shape:
                visit(operand, index)

    for value in values:
        if value.type.shape == shape:
            visit(value, index)
    return size if size and shape[-1] % size == 0 and shape[-1] > size else 0


def divisor(op: Op) -> int:
    """The constant that a division divides by, or 1."""
    other = op.operands[1].op
    if other is None or other.kind != "arith.constant":
        return 1
    text = other.modifiers.removeprefix("dense<").removesuffix(">")
    return int(text) if text.isdigit() and int(text) else 1


Known = dict[tuple[Value, tuple[Index, ...] | int], bool]


def counts(
    emitter: Emitter, value: Value, index: tuple[Index, ...], inner: str, size: int, known: Known | None = None
) -> bool:
    """Whether a value grows by one along the innermost dimension, from a multiple of ``size`` on.

    ``known``: memoized answers about values, since the number of paths to a value grows exponentially.
    """
    known = {} if known is None else known
    if (value, index) not in known:
        known[value, index] = _counts(emitter, value, index, inner, size, known)
    return known[value, index]


def _counts(emitter: Emitter, value: Value, index: tuple[Index, ...], inner: str, size: int, known: Known) -> bool:
    op = value.op
    if op is None or value in emitter.arrays:
        return False
    if op.kind == "tt.make_range":
        return index[0].text == inner and op.integer("start") % size == 0
    if op.kind in MOVES:
        return counts(emitter, op.operands[0], moved_index(op, value, index), inner, size, known)
    if op.kind == "arith.extsi":
        return counts(emitter, op.operands[0], index, inner, size, known)
    if op.kind != "arith.addi":
        return False
    left, right = op.operands
    return any(
        counts(emitter, counter, index, inner, size, known) and is_multiple(emitter, other, size, known)
        for counter, other in ((left, right), (right, left))
    )


def is_multiple(emitter: Emitter, value: Value, size: int, known: Known) -> bool:
    """Whether all elements are the same multiple of ``size``, and not negative."""
    if (value, size) not in known:
        known[value, size] = _is_multiple(emitter, value, size, known)
    return known[value, size]


def _is_multiple(emitter: Emitter, value: Value, size: int, known: Known) -> bool:
    op = value.op
    if op is None:
        loop = emitter.usage.counters.get(value)
        return loop is not None and all(is_multiple(emitter, loop.operands[i], size, known) for i in (0, 2))
    if op.kind == "arith.constant":
        text = op.modifiers.removeprefix("dense<").removesuffix(">")
        return text.isdigit() and int(text) % size == 0
    if op.kind == "tt.get_program_id":
        return size == 1
    if op.kind == "arith.muli":
        left, right = op.operands
        return any(
            is_multiple(emitter, one, size, known) and is_multiple(emitter, other, 1, known)
            for one, other in ((left, right), (right, left))
        )
    if op.kind in ("arith.addi", "tt.splat", "tt.broadcast", "tt.expand_dims", "arith.extsi"):
        return all(is_multiple(emitter, operand, size, known) for operand in op.operands)
    return False
