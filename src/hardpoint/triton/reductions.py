"""Reductions and scans, with any combine function."""

from __future__ import annotations

from hardpoint.triton import dtypes, group_reductions, tiling
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Op, Type
from hardpoint.triton.nest import UNKNOWN, Index, Known, position
from hardpoint.triton.regions import combine, region_lines

#: Partial results side by side, four vectors of them: C vectorizes the inner loop, and the chains of dependent
#: operations are short.
LANES = 64


def reduce(emitter: Emitter, op: Op) -> None:
    """``tl.reduce``, ``tl.sum``, ``tl.argmax``, ..."""
    axis = op.integer("axis")
    shape = op.operands[0].type.shape
    emitter.prepare(*op.operands)
    rest = shape[:axis] + shape[axis + 1 :]
    names = [emitter.array(Type(rest, operand.type.element)) for operand in op.operands]
    if emitter.target.spreads:
        group_reductions.reduce(emitter, op, names, axis)
    elif axis == len(shape) - 1:
        _reduce_rows(emitter, op, names)
    else:
        _reduce_columns(emitter, op, names, axis)
    for result, name in zip(op.results, names, strict=True):
        if rest:
            emitter.arrays[result] = name
        else:
            emitter.scalars[result] = emitter.first_element(name, result.type)


def _reduce_rows(emitter: Emitter, op: Op, names: list[str]) -> None:
    shape = op.operands[0].type.shape
    size = shape[-1]
    lanes = tiling.part(emitter, op.operands, shape) or min(size, LANES)
    nest, index = emitter.nest(shape, part=lanes)
    values = [emitter.value(operand, index, nest) for operand in op.operands]
    partial = [emitter.name("p") for _ in names]
    chunk, lane = (loop.variable for loop in nest.loops[-2:])
    depth = len(nest.loops)
    slots = [f"{p}[{lane}]" for p in partial]
    first = [f"{slot} = {value};" for slot, value in zip(slots, values, strict=True)]
    merge = combine(emitter, op, slots, values, slots)
    fold, step = [], lanes // 2
    while step:
        other = [f"{p}[{lane} + {step}]" for p in partial]
        fold += [
            f"HP_FOLD for (hp_i32 {lane} = 0; {lane} < {step}; ++{lane})",
            *combine(emitter, op, slots, other, slots),
        ]
        step //= 2
    at = position(index[:-1], shape[:-1])
    kinds = [dtypes.register(operand.type.element) for operand in op.operands]

    def loop(begin: object, end: object, known: Known, tail: list[str]) -> list[str]:
        return [
            f"for (hp_i32 {chunk} = {begin}; {chunk} < {end}; {chunk} += {lanes}) {{",
            *nest.body(depth - 1, known),
            f"HP_VECTORIZE for (hp_i32 {lane} = 0; {lane} < {lanes}; ++{lane}) {{",
            *nest.body(depth, known),
            *tail,
            "}}",
        ]

    def whole(loops: list[str]) -> list[str]:
        return [
            "{",
            *(f"HP_ALIGNED {kind} {p}[{lanes}];" for kind, p in zip(kinds, partial, strict=True)),
            *loops,
            *fold,
            *(f"{name}[{at}] = {p}[0];" for name, p in zip(names, partial, strict=True)),
            "}",
        ]

    def inner(known: Known) -> list[str]:
        return whole([*loop(0, lanes, known, first), *(loop(lanes, size, known, merge) if size > lanes else [])])

    cut = emitter.cut(nest) if size > 2 * lanes else None
    if cut is None:
        emitter.emit_versions(nest, lambda known: nest.render(known, inner))
        return
    number, off = cut
    on = dict.fromkeys(nest.masks, "1")

    def split(_: Known) -> list[str]:
        """The first chunk, the chunks where all masks are on, the chunk where they end, and the rest."""
        full, after = emitter.name("full"), emitter.name("after")
        return whole(
            [
                f"const hp_i32 {full} = {number} < {lanes} ? {lanes} : {number} / {lanes} * {lanes};",
                f"const hp_i32 {after} = {full} < {size} ? {full} + {lanes} : {size};",
                *loop(0, lanes, UNKNOWN, first),
                *loop(lanes, full, on, merge),
                *loop(full, after, UNKNOWN, merge),
                *loop(after, size, off, merge),
            ]
        )

    emitter.emit(*nest.render(UNKNOWN, split))
    emitter.note_arrays()


def _reduce_columns(emitter: Emitter, op: Op, names: list[str], axis: int) -> None:
    """The reduced dimension is the outermost loop: the inner loops then update many results side by side."""
    shape = op.operands[0].type.shape
    order = [axis, *(dim for dim in range(len(shape)) if dim != axis)]
    nest, index = emitter.nest(shape, order)
    values = [emitter.value(operand, index, nest) for operand in op.operands]
    at = position(index[:axis] + index[axis + 1 :], shape[:axis] + shape[axis + 1 :])
    slots = [f"{name}[{at}]" for name in names]
    first = [f"{slot} = {value};" for slot, value in zip(slots, values, strict=True)]
    merge = combine(emitter, op, slots, values, slots)

    def render(known: Known) -> list[str]:
        lines = []
        for begin, end, tail in ((0, 1, first), (1, shape[axis], merge)):
            heads = [nest.loops[0].head(begin, end), *(loop.head() for loop in nest.loops[1:])]

            def inner(known: Known, head: str = heads[-1], tail: list[str] = tail) -> list[str]:
                return ["HP_VECTORIZE", head, *nest.body(len(nest.loops), known), *tail, "}"]

            if begin < end:
                lines += nest.render(known, inner, heads)
        return lines

    emitter.emit_versions(nest, render)


def scan(emitter: Emitter, op: Op) -> None:
    """``tl.associative_scan``, ``tl.cumsum``, ..."""
    axis, reverse = op.integer("axis"), op.attributes.get("reverse") == "true"
    emitter.prepare(*op.operands)
    names = [emitter.array(result.type) for result in op.results]
    if emitter.target.spreads:
        group_reductions.scan(emitter, op, names)
    else:
        _scan(emitter, op, names, axis, reverse)
    for result, name in zip(op.results, names, strict=True):
        emitter.arrays[result] = name


def _scan(emitter: Emitter, op: Op, names: list[str], axis: int, reverse: bool) -> None:
    shape = op.operands[0].type.shape
    nest, index = emitter.nest(shape)
    values = [emitter.value(operand, index, nest) for operand in op.operands]
    here = index[axis]
    before = Index(f"({here.text} {'+' if reverse else '-'} 1)", here.depth)
    last = position(tuple(before if dim == axis else at for dim, at in enumerate(index)), shape)
    at = position(index, shape)
    slots, earlier = [f"{name}[{at}]" for name in names], [f"{name}[{last}]" for name in names]
    nest.append(f"if ({here.text} == {shape[axis] - 1 if reverse else 0}) {{")
    for slot, value in zip(slots, values, strict=True):
        nest.append(f"{slot} = {value};")
    nest.append("} else")
    for line in combine(emitter, op, earlier, values, slots):
        nest.append(line)
    heads = [loop.head(down=reverse and dim == axis) for dim, loop in enumerate(nest.loops)]
    emitter.emit_versions(nest, lambda known: nest.render(known, heads=heads, vectorize=False))


def map_elementwise(emitter: Emitter, op: Op) -> None:
    """``tl.map_elementwise``: a scalar function, branches included, for each element or for a few neighbors."""
    pack, shape = op.integer("pack") if "pack" in op.attributes else 1, op.result.type.shape
    if shape[-1] % pack:
        raise op.unsupported(f"pack={pack} for rows of {shape[-1]} elements")
    if pack == 1:
        emitter.prepare(*op.operands)
    else:
        for operand in op.operands:
            emitter.materialize(operand)
    names = [emitter.array(result.type) for result in op.results]
    nest, index = emitter.nest((*shape[:-1], shape[-1] // pack))
    places = [index]
    if pack > 1:
        *outer, inner = index
        places = [(*outer, Index(f"({inner.text} * {pack} + {i})", inner.depth)) for i in range(pack)]
    values = [emitter.value(operand, place, nest) for operand in op.operands for place in places]
    targets = [f"{name}[{position(place, shape)}]" for name in names for place in places]
    lines, results = region_lines(emitter, op, values)
    nest.append("{")
    for line in [*lines, *(f"{to} = {value};" for to, value in zip(targets, results, strict=True))]:
        nest.append(line)
    nest.append("}")
    emitter.close(nest, vectorize=False)
    for result, name in zip(op.results, names, strict=True):
        emitter.arrays[result] = name
