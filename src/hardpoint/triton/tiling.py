"""Innermost loops in parts that fit the divisors of index arithmetic.

``i % 64`` and ``i // 64`` of consecutive indices change nothing but the last digits in a part of 64: there the first is
consecutive, too, and the second constant. Loads with such addresses are then plain vector loads rather than gathers.
Inductor computes the coordinates of an element like that.
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
    text = other.words.removeprefix("dense<").removesuffix(">")
    return int(text) if text.isdigit() and int(text) else 1


def counts(emitter: Emitter, value: Value, index: tuple[Index, ...], inner: str, size: int) -> bool:
    """Whether a value grows by one along the innermost dimension, from a multiple of ``size`` on."""
    op = value.op
    if op is None or value in emitter.arrays:
        return False
    if op.kind == "tt.make_range":
        return index[0].text == inner and op.integer("start") % size == 0
    if op.kind in MOVES:
        return counts(emitter, op.operands[0], moved_index(op, value, index), inner, size)
    if op.kind == "arith.extsi":
        return counts(emitter, op.operands[0], index, inner, size)
    if op.kind != "arith.addi":
        return False
    left, right = op.operands
    return (counts(emitter, left, index, inner, size) and is_multiple(emitter, right, size)) or (
        counts(emitter, right, index, inner, size) and is_multiple(emitter, left, size)
    )


def is_multiple(emitter: Emitter, value: Value, size: int) -> bool:
    """Whether all elements are the same multiple of ``size``, and not negative."""
    op = value.op
    if op is None:
        loop = emitter.usage.counters.get(value)
        return loop is not None and all(is_multiple(emitter, loop.operands[i], size) for i in (0, 2))
    if op.kind == "arith.constant":
        text = op.words.removeprefix("dense<").removesuffix(">")
        return text.isdigit() and int(text) % size == 0
    if op.kind == "tt.get_program_id":
        return size == 1
    if op.kind == "arith.muli":
        left, right = op.operands
        return (is_multiple(emitter, left, size) and is_multiple(emitter, right, 1)) or (
            is_multiple(emitter, right, size) and is_multiple(emitter, left, 1)
        )
    if op.kind in ("arith.addi", "tt.splat", "tt.broadcast", "tt.expand_dims", "arith.extsi"):
        return all(is_multiple(emitter, operand, size) for operand in op.operands)
    return False
