"""``tl.dot_scaled``: matrix products of microscaled formats."""

from __future__ import annotations

import re

from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Op, Type, Value
from hardpoint.triton.memory_ops import emit_dot
from hardpoint.triton.nest import Index, position


def dot_scaled(emitter: Emitter, op: Op) -> None:
    """``tl.dot_scaled``: operands are scaled while they are copied to tiles of the result's type."""
    if len(op.result.type.shape) != 2:
        raise op.unsupported("batches")
    operands = iter(op.operands)
    given: list[tuple[Value, Value | None]] = []
    for part in op.modifiers.split(",")[:2]:
        value = next(operands)
        given.append((value, next(operands) if " scale " in part else None))
    start = next(operands)
    formats = re.findall(r"[lr]hs = (\w+)", op.modifiers)
    rows, columns = op.result.type.shape
    left, scale = given[0]
    along_k = op.attributes.get("lhs_k_pack") != "false"
    depth = left.type.shape[1] * (2 if formats[0] == "e2m1" and along_k else 1)
    tiles = []
    for side, (value, scale) in enumerate(given):
        packed_axis = None
        if formats[side] == "e2m1":
            along_k = op.attributes.get(("lhs_k_pack", "rhs_k_pack")[side]) != "false"
            packed_axis = 1 - side if along_k else side
        shape = (rows, depth) if side == 0 else (depth, columns)
        tiles.append(_tile(emitter, op.result.type.element, shape, value, scale, packed_axis, side))
    emit_dot(emitter, op, tiles, (rows, columns, depth), start)


def _tile(
    emitter: Emitter,
    element: str,
    shape: tuple[int, int],
    value: Value,
    scale: Value | None,
    packed_axis: int | None,
    side: int,
) -> str:
    """An array of an operand, decoded and scaled. ``side``: 0 for the left one, 1 for the right one."""
    source = emitter.materialize(value)
    kind = Type(shape, element)
    scales = emitter.materialize(scale) if scale is not None else ""
    name = emitter.array(kind)
    nest, index = emitter.nest(shape)
    k, other = index[1 - side], index[side]
    if packed_axis is None:
        text = f"{source}[{position(index, shape)}]"
    else:  # two numbers in a byte, the first in the lower bits
        at = index[packed_axis]
        there = tuple(Index(f"({at.text} / 2)") if axis == packed_axis else i for axis, i in enumerate(index))
        byte = f"(hp_u8){source}[{position(there, value.type.shape)}]"
        text = f"hp_load_e2m1({byte} >> {at.text} % 2 * 4)"
    if scale is not None:
        group = shape[1 - side] // scale.type.shape[1]
        at_scale = position((other, Index(f"({k.text} / {group})")), scale.type.shape)
        factor = f"{scales}[{at_scale}]"
        text = f"{text} * {factor if dtypes.is_float(scale.type.element) else f'hp_load_e8m0((hp_u8){factor})'}"
    nest.append(f"{name}[{position(index, shape)}] = {text};")
    emitter.close(nest)
    return name
