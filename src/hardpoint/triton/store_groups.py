"""Stores that one nest of loops does together, so that it computes and loads what they share only once.

A group is a run of stores of the same shape with nothing but arithmetic between them. Loads end a group, as do two
stores that may write the same memory through different pointers: their order matters.
"""

from __future__ import annotations

from hardpoint.triton.ir import Block, Function, Op, Value, walk
from hardpoint.triton.usage import MOVES, is_fusible


def find(function: Function) -> dict[Op, list[Op]]:
    """For each store of a tensor, the stores of its group in their order. The last one emits the nest."""
    groups: dict[Op, list[Op]] = {}
    blocks = {op.block for op in walk(function.blocks) if op.kind == "tt.store"}
    for block in blocks:
        if block is not None:
            _find_in(block, groups)
    return groups


def _find_in(block: Block, groups: dict[Op, list[Op]]) -> None:
    group: list[Op] = []
    for op in block.ops:
        if op.kind == "tt.store" and op.operands[0].type.shape:
            if not group or not all(_may_join(op, other) for other in group):
                group = []
            group.append(op)
            groups[op] = group
        elif op.kind == "tt.load" or not is_fusible(op):
            group = []


def _may_join(op: Op, other: Op) -> bool:
    pointer, written = op.operands[0], other.operands[0]
    if pointer.type.shape != written.type.shape:
        return False
    return pointer is written or root(pointer) is not root(written)


def root(value: Value) -> Value:
    """The value that a pointer was computed from, usually an argument of the kernel."""
    while value.op is not None and value.op.kind in ("tt.addptr", "tt.splat", "tt.broadcast", "tt.bitcast", *MOVES):
        value = value.op.operands[0]
    return value
