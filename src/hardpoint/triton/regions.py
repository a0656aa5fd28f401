"""Loops, branches, and the bodies of combine functions."""

from __future__ import annotations

from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Block, Op, Value, writes
from hardpoint.triton.memory_ops import finish_loads
from hardpoint.triton.nest import Nest, position

#: Ends a program.
RETURN = "HP_RETURN;"


def region_lines(emitter: Emitter, op: Op, arguments: list[str]) -> tuple[list[str], list[str]]:
    """The body of an operation's region on scalars, and the values that it returns."""
    blocks = op.regions[0]
    outer, emitter.lines = emitter.lines, []
    for value, text in zip(blocks[0].arguments, arguments, strict=True):
        emitter.scalars[value] = text
    run_blocks(emitter, [Block(block.label, block.arguments, _without_end(block)) for block in blocks], declare=1)
    lines, emitter.lines = emitter.lines, outer
    end = blocks[-1].ops[-1]
    if not end.kind.endswith(".return"):
        raise op.unsupported("its function must have one return at its end")
    return lines, [emitter.scalar(value) for value in end.operands]


def combine(emitter: Emitter, op: Op, left: list[str], right: list[str], out: list[str]) -> list[str]:
    """The combine function in C: ``out = f(left, right)``, element by element."""
    lines, values = region_lines(emitter, op, [*left, *right])
    elements = [operand.type.element for operand in op.operands]
    names = [emitter.name("n") for _ in values]
    for element, name, value in zip(elements, names, values, strict=True):
        lines.append(f"{dtypes.register(element)} const {name} = {value};")
    labels = [line.removesuffix(":;") for line in lines if line.endswith(":;")]
    own = [f"__label__ {', '.join(labels)};"] if labels else []  # the lines may appear several times in a kernel
    return ["{", *own, *lines, *(f"{to} = {name};" for to, name in zip(out, names, strict=True)), "}"]


def _without_end(block: Block) -> list[Op]:
    return block.ops[:-1] if block.ops and block.ops[-1].kind.endswith(".return") else block.ops


def run_blocks(emitter: Emitter, blocks: list[Block], declare: int = 0) -> None:
    """Blocks with branches between them. Arguments of the blocks from number ``declare`` on become variables."""
    for block in blocks[declare:]:
        for value in block.arguments:
            _declare(emitter, value)
    # Labels get new names each time, since combine functions may be emitted twice.
    by_label = {block.label: block for block in blocks}
    labels = {label: emitter.name("label") for label in by_label}
    blocks = [block for block in blocks if block is blocks[-1] or not _only_returns(block)]
    for number, block in enumerate(blocks):
        if number:
            emitter.flags.clear()  # the previous block may have been skipped
            emitter.emit(f"{labels[block.label]}:;")
        known = set(emitter.arrays)
        for op in block.ops:
            if op.kind in ("cf.br", "cf.cond_br"):
                following = blocks[number + 1] if number + 1 < len(blocks) else None
                _branch(emitter, op, by_label, labels, following)
                emitter.finished.add(op)
            elif op.kind != "tt.return" or number + 1 < len(blocks):
                emitter.run([op])
        _forget_foreign_arrays(emitter, block, known)


def _forget_foreign_arrays(emitter: Emitter, block: Block, known: set[Value]) -> None:
    """After a block: later blocks may run without it, so they compute the values of earlier blocks again."""
    for value in emitter.arrays.keys() - known:
        if value.op is not None and value.op.block is not block:
            del emitter.arrays[value]


def _only_returns(block: Block) -> bool:
    return [op.kind for op in block.ops] == ["tt.return"]


def _branch(
    emitter: Emitter, op: Op, blocks: dict[str, Block], labels: dict[str, str], following: Block | None
) -> None:
    """No jump is needed to the next block, nor to a block that only returns."""
    jumps = []
    for label, values in op.targets:
        outer, emitter.lines = emitter.lines, []
        arrays, flags = dict(emitter.arrays), dict(emitter.flags)
        _assign(emitter, blocks[label].arguments, values)
        if _only_returns(blocks[label]):
            emitter.emit(RETURN)
        elif blocks[label] is not following:
            emitter.emit(f"goto {labels[label]};")
        jumps.append(emitter.lines)
        emitter.lines, emitter.arrays, emitter.flags = outer, arrays, flags
    if op.kind == "cf.br":
        emitter.emit("{", *jumps[0], "}")
    else:
        emitter.emit(f"if ({emitter.scalar(op.operands[0])}) {{", *jumps[0], "} else {", *jumps[1], "}")


def return_(emitter: Emitter, op: Op) -> None:
    """The end of the kernel, or an early return."""
    emitter.emit(RETURN)


def call(emitter: Emitter, op: Op) -> None:
    """A function with early returns."""
    for value in op.results:
        _declare(emitter, value)
    scope = _Scope(emitter, op)
    end = emitter.name("label")
    emitter.callers.append((op, end))
    emitter.emit("{")
    with scope:
        run_blocks(emitter, op.regions[0])
    emitter.emit("}", f"{end}:;")
    emitter.callers.pop()


def leave(emitter: Emitter, op: Op) -> None:
    """The end of a function, or an early return from it."""
    caller, end = emitter.callers[-1]
    _assign(emitter, caller.results, op.operands)
    emitter.emit(f"goto {end};")


def _declare(emitter: Emitter, value: Value) -> None:
    if value.type.shape:
        emitter.arrays[value] = emitter.array(value.type)
    else:
        name = emitter.scalars[value] = emitter.name("x")
        emitter.emit(f"{dtypes.register(value.type.element)} {name} = 0;")


def _assign(emitter: Emitter, targets: list[Value], values: list[Value]) -> None:
    """Assign all at once: a value may depend on a target that another assignment changes."""
    scalars, nests = [], []
    groups: dict[tuple[int, ...], list[tuple[Value, Value]]] = {}
    for target, value in zip(targets, values, strict=True):
        if not target.type.shape:
            if emitter.scalar(value) != emitter.scalar(target):
                kind = dtypes.register(target.type.element)
                scalars.append((emitter.scalar(target), emitter.variable(kind, emitter.scalar(value))))
        elif emitter.arrays.get(value) != emitter.arrays[target]:
            emitter.prepare(value)
            groups.setdefault(target.type.shape, []).append((target, value))
    written = {emitter.arrays[target] for pairs in groups.values() for target, _ in pairs}
    unsafe: set[str] = set()
    for shape, pairs in groups.items():
        nest, index = emitter.nest_for([value for _, value in pairs], shape)
        found = [emitter.value(value, index, nest) for _, value in pairs]
        at, own = position(index, shape), {emitter.arrays[target] for target, _ in pairs}
        unsafe |= {array for array, place in nest.reads if array in written and (place != at or array not in own)}
        nests.append((nest, at, pairs, found))
    copies: list[tuple[int, str]] = []
    for nest, at, pairs, found in nests:
        _write(emitter, nest, at, pairs, found, unsafe, copies)
        emitter.close(nest)
    for size, statement in copies:
        emitter.whole(size, statement)
    emitter.emit(*(f"{target} = {value};" for target, value in scalars))


def _write(
    emitter: Emitter,
    nest: Nest,
    at: str,
    pairs: list[tuple[Value, Value]],
    found: list[str],
    unsafe: set[str],
    copies: list[tuple[int, str]],
) -> None:
    """End a nest that assigns tensors. A tensor that another assignment still reads goes to a spare array first."""
    names = [emitter.name("y") for _ in pairs]
    for (target, _), value, name in zip(pairs, found, names, strict=True):
        nest.append(f"{dtypes.register(target.type.element)} const {name} = {value};")
    for (target, _), name in zip(pairs, names, strict=True):
        array = to = emitter.arrays[target]
        if array in unsafe:
            to = emitter.array(target.type)
            copies.append((target.type.size, f"{array}[i] = {to}[i];"))
        nest.append(f"{to}[{at}] = {name};")


def _bind(emitter: Emitter, results: list[Value], variables: list[Value]) -> None:
    """After a loop, its results are the loop's variables."""
    for result, variable in zip(results, variables, strict=True):
        if result.type.shape:
            emitter.arrays[result] = emitter.arrays[variable]
        else:
            emitter.scalars[result] = emitter.scalars[variable]


def _run_body(emitter: Emitter, block: Block, end: str) -> list[Value]:
    """Emit a block of a loop or branch, and return the values that it ends with."""
    ops, values = block.ops, []
    if ops and ops[-1].kind == end:
        values, ops = ops[-1].operands, ops[:-1]
    emitter.run(ops)
    return values


class _Scope:
    """A pair of braces, which is the scope of the arrays declared inside."""

    def __init__(self, emitter: Emitter, op: Op) -> None:
        if writes(op):
            finish_loads(emitter)
        self.emitter = emitter

    def __enter__(self) -> None:
        self.arrays, self.loads = dict(self.emitter.arrays), self.emitter.loads
        self.flags, self.top = dict(self.emitter.flags), self.emitter.top
        self.emitter.loads = []

    def __exit__(self, *_: object) -> None:
        if self.emitter.heap:
            self.emitter.top = self.top  # frees the memory of arrays declared inside
        self.emitter.arrays, self.emitter.loads, self.emitter.flags = self.arrays, self.loads, self.flags


def for_loop(emitter: Emitter, op: Op) -> None:
    """``for i in range(...)``."""
    scope = _Scope(emitter, op)
    (block,) = op.regions[0]
    counter, *carried = block.arguments
    low, high, step = (emitter.scalar(value) for value in op.operands[:3])
    for value in carried:
        _declare(emitter, value)
    _assign(emitter, carried, op.operands[3:])
    i = emitter.scalars[counter] = emitter.name("k")
    cast = f"({dtypes.unsigned(counter.type.element)})" if op.modifiers == "unsigned" else ""
    kind = dtypes.register(counter.type.element)
    emitter.emit(f"for ({kind} {i} = {low}; {cast}{i} < {cast}{high}; {i} += {step}) {{")
    with scope:
        _assign(emitter, carried, _run_body(emitter, block, "scf.yield"))
    emitter.emit("}")
    _bind(emitter, op.results, carried)


def condition(emitter: Emitter, op: Op) -> None:
    """``if``."""
    for value in op.results:
        _declare(emitter, value)
    scope = _Scope(emitter, op)
    emitter.emit(f"if ({emitter.scalar(op.operands[0])}) {{")
    for number, region in enumerate(op.regions):
        if number and region:
            emitter.emit("} else {")
        for block in region:
            with scope:
                _assign(emitter, op.results, _run_body(emitter, block, "scf.yield"))
    emitter.emit("}")


def while_loop(emitter: Emitter, op: Op) -> None:
    """``while``."""
    scope = _Scope(emitter, op)
    (before,), (after,) = op.regions
    for value in (*before.arguments, *after.arguments):
        _declare(emitter, value)
    _assign(emitter, before.arguments, op.operands)
    emitter.emit("for (;;) {")
    with scope:
        go_on, *values = _run_body(emitter, before, "scf.condition")
        _assign(emitter, after.arguments, values)
        emitter.emit(f"if (!{emitter.scalar(go_on)}) break;")
        _assign(emitter, before.arguments, _run_body(emitter, after, "scf.yield"))
    emitter.emit("}")
    _bind(emitter, op.results, after.arguments)
