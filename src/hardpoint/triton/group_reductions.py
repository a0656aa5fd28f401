"""Reductions and scans by the work-items of a group."""

from __future__ import annotations

import math

from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Op, Type
from hardpoint.triton.nest import UNKNOWN, position
from hardpoint.triton.regions import combine
from hardpoint.triton.spread import ITEM, open_loop, split


def reduce(emitter: Emitter, op: Op, names: list[str], axis: int) -> None:
    """Each work-item reduces every n-th element of a row; then the work-items of a row combine their results."""
    shape, group = op.operands[0].type.shape, emitter.target.group_size
    rest = [dim for dim in range(len(shape)) if dim != axis]
    rows, size = math.prod(shape[dim] for dim in rest), shape[axis]
    nest, index = emitter.nest(shape, [*rest, axis])
    values = [emitter.value(operand, index, nest) for operand in op.operands]
    lanes = _power(min(max(group // rows, 1), size))
    # Neighboring work-items take neighboring elements of memory.
    along = axis == len(shape) - 1
    row_text, lane_text = (f"/ {lanes}", f"% {lanes}") if along else (f"% {rows}", f"/ {rows}")
    mark = emitter.top
    kinds = [operand.type.element for operand in op.operands]
    results = [emitter.array(Type((rows * lanes,), kind)) for kind in kinds] if lanes > 1 else names
    item, lane, step, row = (emitter.name(stem) for stem in ("e", "l", "k", "r"))
    totals = [emitter.name("p") for _ in names]
    lines = ["{", *nest.body(0, UNKNOWN), *open_loop(item, rows * lanes, group)]
    lines += [f"const hp_i32 {row} = {item} {row_text}, {lane} = {item} {lane_text};"]
    for depth, definition in enumerate(split(nest.loops[:-1], row), 1):
        lines += [definition, *nest.body(depth, UNKNOWN)]
    lines += [f"{dtypes.register(kind)} {total} = 0;" for kind, total in zip(kinds, totals, strict=True)]
    lines += [
        f"for (hp_i32 {step} = 0; {step} < {size}; {step} += {lanes}) {{",
        f"const hp_i32 {nest.loops[-1].variable} = {step} + {lane};",
        f"if ({nest.loops[-1].variable} < {size}) {{" if size % lanes else "{",
        *nest.body(len(nest.loops), UNKNOWN),
        f"if ({step} == 0) {{",
        *(f"{total} = {value};" for total, value in zip(totals, values, strict=True)),
        "} else",
        *combine(emitter, op, totals, values, totals),
        "}}",
    ]
    at = item if lanes > 1 else position(tuple(index[dim] for dim in rest), tuple(shape[dim] for dim in rest))
    lines += [f"{result}[{at}] = {total};" for result, total in zip(results, totals, strict=True)]
    emitter.emit(*lines, "}}}")
    emitter.barrier()
    if lanes > 1:
        _merge_lanes(emitter, op, results, names, rows, lanes, along)
        emitter.top = mark  # the results of single work-items are no longer needed
    emitter.note_arrays()


def _merge_lanes(
    emitter: Emitter, op: Op, results: list[str], names: list[str], rows: int, lanes: int, along: bool
) -> None:
    half = emitter.name("h")
    mine, other = ([f"{r}[{ITEM}{offset}]" for r in results] for offset in ("", f" + {half} * {1 if along else rows}"))
    condition = f"{ITEM} < {rows * lanes} && {ITEM} % {lanes} < {half}" if along else f"{ITEM} < {half} * {rows}"
    emitter.emit(
        f"for (hp_i32 {half} = {lanes // 2}; {half}; {half} /= 2) {{",
        f"if ({condition})",
        *combine(emitter, op, mine, other, mine),
        "hp_barrier(); }",
    )
    first = f"{ITEM} * {lanes}" if along else ITEM
    copies = " ".join(f"{name}[{ITEM}] = {result}[{first}];" for name, result in zip(names, results, strict=True))
    emitter.emit(f"if ({ITEM} < {rows}) {{ {copies} }}")
    emitter.barrier()


def scan(emitter: Emitter, op: Op, names: list[str]) -> None:
    """A scan in place, in three steps: within parts of a row, over the ends of the parts, and both combined."""
    axis, reverse = op.integer("axis"), op.attributes.get("reverse") == "true"
    shape, group = op.operands[0].type.shape, emitter.target.group_size
    nest, index = emitter.nest(shape)
    for name, operand in zip(names, op.operands, strict=True):
        nest.append(f"{name}[{position(index, shape)}] = {emitter.value(operand, index, nest)};")
    emitter.close(nest)
    size, inner = shape[axis], math.prod(shape[axis + 1 :])
    rows = math.prod(shape) // size
    lanes = _power(min(max(group // rows, 1), max(size // 2, 1)))
    while size % lanes:
        lanes //= 2
    part = size // lanes
    row, lane, j, item = (emitter.name(stem) for stem in ("r", "l", "j", "e"))

    def at(number: str) -> list[str]:
        number = f"({size - 1} - ({number}))" if reverse else f"({number})"
        return [f"{name}[{row} / {inner} * {size * inner} + {row} % {inner} + {number} * {inner}]" for name in names]

    def each(total: int, head: list[str], body: list[str]) -> None:
        emitter.emit(*open_loop(item, total, group), *head, *body, "}}")
        emitter.barrier()

    split = [f"const hp_i32 {row} = {item} % {rows}, {lane} = {item} / {rows};"]
    here, before = at(f"{lane} * {part} + {j}"), at(f"{lane} * {part} + {j} - 1")
    loop = f"for (hp_i32 {j} = 1; {j} < {part}; ++{j})"
    each(rows * lanes, split, [loop, *combine(emitter, op, before, here, here)])
    if lanes == 1:
        return
    end, last = at(f"{lane} * {part} + {part - 1}"), at(f"{lane} * {part} - 1")
    loop = f"for (hp_i32 {lane} = 1; {lane} < {lanes}; ++{lane})"
    each(rows, [f"const hp_i32 {row} = {item};"], [loop, *combine(emitter, op, last, end, end)])
    loop = f"if ({lane}) for (hp_i32 {j} = 0; {j} < {part - 1}; ++{j})"
    each(rows * lanes, split, [loop, *combine(emitter, op, last, here, here)])


def _power(number: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (number.bit_length() - 1)
