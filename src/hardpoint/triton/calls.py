"""Calls of functions with early returns: Triton inlines these at the top level of a kernel only.

A call gets a region of its own: a copy of the function that uses the operands of the call in place of the arguments.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from hardpoint.triton.ir import Block, Function, Op, Value, walk

CALL, RETURN = "tt.call", "tt.return"
#: Ends a copied function, not the kernel.
LEAVE = "call.return"
CALLEE = re.compile(r"@([\w.$]+)")


def expand(kernel: Function, functions: Mapping[str, Function]) -> None:
    """Give each call of a kernel its copy of the function."""
    todo = [op for op in walk(kernel.blocks) if op.kind == CALL]
    for call in todo:  # the list grows: functions call others
        found = CALLEE.search(call.modifiers)
        function = functions.get(found[1] if found else "".join(call.strings))
        if function is None:
            raise call.unsupported("the function that it calls is not in the module")
        blocks = _copy_function(function, call)
        call.regions = [blocks]
        todo += [op for op in walk(blocks) if op.kind == CALL]


def _copy_function(function: Function, call: Op) -> list[Block]:
    values = dict(zip(function.arguments, call.operands, strict=True))
    for value in call.operands:
        value.users.remove(call)
    call.operands = []
    blocks = _copy(function.blocks, values)
    for block in blocks:
        for op in block.ops:
            if op.kind == RETURN:
                op.kind = LEAVE
    return blocks


def _copy(blocks: list[Block], values: dict[Value, Value]) -> list[Block]:
    for block in blocks:
        for old in (*block.arguments, *(result for op in block.ops for result in op.results)):
            values.setdefault(old, Value(old.type))
    copies = [Block(block.label, [values[value] for value in block.arguments]) for block in blocks]
    for block, copy in zip(blocks, copies, strict=True):
        copy.ops = [_copy_op(op, copy, values) for op in block.ops]
    return copies


def _copy_op(op: Op, block: Block, values: dict[Value, Value]) -> Op:
    made = Op(
        op.kind,
        [values.get(value, value) for value in op.operands],
        results=[values[value] for value in op.results],
        modifiers=op.modifiers,
        attributes=dict(op.attributes),
        strings=list(op.strings),
        targets=[(label, [values.get(value, value) for value in passed]) for label, passed in op.targets],
        location=op.location,
        block=block,
    )
    for value in made.results:
        value.op = made
    for value in (*made.operands, *(value for _, passed in made.targets for value in passed)):
        value.users.append(made)
    made.regions = [_copy(region, values) for region in op.regions]
    return made
