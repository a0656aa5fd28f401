"""Stores, atomics, and other operations on memory and whole tiles."""

from __future__ import annotations

from collections.abc import Sequence

from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Op, Type, Value
from hardpoint.triton.nest import Index, position
from hardpoint.triton.store_groups import root
from hardpoint.triton.usage import MOVES, is_fusible

#: Operation of tt.atomic_rmw -> new value from the old and the given one.
ATOMICS = {
    "fadd": "old + given",
    "add": "old + given",
    "and": "old & given",
    "or": "old | given",
    "xor": "old ^ given",
    "exch": "given",
    "max": "old > given ? old : given",
    "min": "old < given ? old : given",
    "umax": "(U)old > (U)given ? old : given",
    "umin": "(U)old < (U)given ? old : given",
}


def finish_loads(emitter: Emitter, stores: Sequence[Op] = ()) -> None:
    """Before memory is written: emit the deferred loads, except those that the nest of these stores itself may do."""
    if emitter.usage.loads_scalars:
        emitter.barrier()  # every work-item must have loaded them
    for load in list(emitter.loads):
        left = {sink for sink in emitter.usage.sinks(load) if sink not in emitter.finished}
        if left and load not in emitter.arrays:
            # The nest of these stores also stores a load that later nests need.
            again = left != {*stores[-1:]}
            stored = not again or load in emitter.usage.stored
            if stores and stores[-1] in left and stored and _may_fuse(stores, load, again):
                continue
            emitter.materialize(load)
        emitter.loads.remove(load)


def _may_fuse(stores: Sequence[Op], load: Value, again: bool) -> bool:
    """Whether the nest of stores may do the load itself: it must not read what an earlier iteration wrote."""
    assert load.op is not None
    source = load.op.operands[0]
    for store in stores:
        written = store.operands[0]
        if source is not written and root(source) is root(written):
            return False
    return load.type.shape == stores[0].operands[0].type.shape and _keeps_order(load, stores, again)


def _keeps_order(value: Value, stores: Sequence[Op], others: bool) -> bool:
    """Whether every path from a value to the stores is elementwise. ``others``: there are paths to other operations."""
    todo, seen = [value], {value}
    while todo:
        for user in todo.pop().users:
            if user in stores:
                continue
            if not is_fusible(user) or user.block is not stores[0].block:
                if not others:
                    return False
            elif user.kind in MOVES:
                return False
            else:  # each value once: the number of paths grows exponentially
                todo += [result for result in user.results if result not in seen]
                seen.update(user.results)
    return True


def volatile_load(emitter: Emitter, op: Op) -> None:
    """``tl.load(..., volatile=True)``: here and once, because programs wait for each other with it."""
    kind = op.result.type
    finish_loads(emitter)
    emitter.prepare(*op.operands)
    to_result = _result(emitter, op, kind)
    nest, index = emitter.nest(kind.shape)
    text = emitter.loaded(op, [emitter.value(operand, index, nest) for operand in op.operands], "volatile")
    nest.append(f"{{ const {dtypes.register(kind.element)} old = {text}; {to_result(index)} }}")
    emitter.close(nest, vectorize=False)
    to_result.finish()


def store(emitter: Emitter, op: Op) -> None:
    """``tl.store``. One nest does all stores of a group."""
    stores = emitter.store_groups.get(op, [op])
    if op is not stores[-1]:
        return
    finish_loads(emitter, stores)
    for each in stores:
        emitter.prepare(*each.operands)
    operands = [operand for each in stores for operand in each.operands]
    nest, index = emitter.nest_for(operands, op.operands[0].type.shape)
    lines, masked = [], True
    for each in stores:
        element = each.operands[0].type.element[1:]
        to, value, *mask = (emitter.value(operand, index, nest) for operand in each.operands)
        if mask and each.operands[2].type.shape:
            emitter.note_mask(each.operands[2], mask[0], index, nest)
        masked = masked and bool(mask) and mask[0] in nest.masks
        lines.append(f"{_condition(emitter, each, to, mask)}*{to} = {dtypes.encode(element, value)};")
    for line in lines:  # after all loads: they may read what the stores replace
        nest.append(line)
    emitter.close(nest, masked=masked)


def _condition(emitter: Emitter, op: Op, pointer: str, mask: list[str]) -> str:
    """Under which condition a nest writes to a pointer."""
    conditions = [*mask, *filter(None, [emitter.inside(op, pointer)])]
    return f"if ({' && '.join(conditions)}) " if conditions else ""


def atomic_rmw(emitter: Emitter, op: Op) -> None:
    """``tl.atomic_add`` and the like."""
    kind = op.operands[1].type
    element, word = kind.element, _word(kind.element)
    finish_loads(emitter)
    emitter.prepare(*op.operands)
    to_result = _result(emitter, op, kind)
    nest, index = emitter.nest(kind.shape)
    pointer, given, *mask = (emitter.value(operand, index, nest) for operand in op.operands)
    new = ATOMICS.get(op.keyword())
    if new is None:
        raise op.unsupported(f"atomic {op.keyword()}")
    new = new.replace("(U)", f"({dtypes.unsigned(element)})" if not dtypes.is_float(element) else "")
    register, memory = dtypes.register(element), dtypes.memory(element)
    old, update = dtypes.load(element, "(&raw)"), dtypes.encode(element, f"({new})")
    nest.append(
        f"{_condition(emitter, op, pointer, mask)}{{ const {register} given = {given}; {register} old; "
        f"HP_ATOMIC_UPDATE({word}, {memory}, {pointer}, old, ({old}), ({update})) {to_result(index)} }}"
    )
    emitter.close(nest, vectorize=False)
    to_result.finish()


def atomic_cas(emitter: Emitter, op: Op) -> None:
    """``tl.atomic_cas``."""
    kind = op.operands[1].type
    element, memory = kind.element, dtypes.memory(kind.element)
    finish_loads(emitter)
    emitter.prepare(*op.operands)
    to_result = _result(emitter, op, kind)
    nest, index = emitter.nest(kind.shape)
    pointer, expected, given = (emitter.value(operand, index, nest) for operand in op.operands)
    nest.append(
        f"{_condition(emitter, op, pointer, [])}{{ {memory} seen = {dtypes.encode(element, expected)}, "
        f"given = {dtypes.encode(element, given)}; "
        f"HP_ATOMIC_EXCHANGE({_word(element)}, {memory}, {pointer}, seen, given) "
        f"const {dtypes.register(element)} old = {dtypes.load(element, '(&seen)')}; {to_result(index)} }}"
    )
    emitter.close(nest, vectorize=False)
    to_result.finish()


def _word(element: str) -> str:
    """The unsigned type that an atomic operation on this type works on."""
    bits = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}.get(element)
    return f"hp_u{bits}" if bits else dtypes.unsigned(element)


class _result:
    """The destination of a memory operation's old value, if the program uses it."""

    def __init__(self, emitter: Emitter, op: Op, kind: Type) -> None:
        self.emitter, self.op = emitter, op
        self.name, self.shape = "", kind.shape
        if not op.result.users:
            return
        if kind.shape:
            self.name = emitter.arrays[op.result] = emitter.array(kind)
            # Elements that the mask turns off are undefined in Triton; zeros repeat from run to run.
            emitter.whole(kind.size, f"{self.name}[i] = 0;")
        elif emitter.target.spreads:
            self.name = emitter.array(kind)
            emitter.whole(1, f"{self.name}[i] = 0;")
        else:
            self.name = emitter.scalars[op.result] = emitter.name("s")
            emitter.emit(f"{dtypes.register(kind.element)} {self.name} = 0;")

    def __call__(self, index: tuple[Index, ...]) -> str:
        if not self.name:
            return ""
        in_array = self.shape or self.emitter.target.spreads
        return f"{self.name}[{position(index, self.shape)}] = old;" if in_array else f"{self.name} = old;"

    def finish(self) -> None:
        """After the nest: broadcast the scalar of one work-item to all."""
        if self.name and not self.shape and self.emitter.target.spreads:
            self.emitter.scalars[self.op.result] = self.emitter.first_element(self.name, self.op.result.type)


def gather(emitter: Emitter, op: Op) -> None:
    """``tl.gather``."""
    source, chosen = op.operands
    axis = op.integer("axis")
    array = emitter.materialize(source)
    emitter.prepare(chosen)
    kind = op.result.type
    name = emitter.array(kind)
    nest, index = emitter.nest(kind.shape)
    at = emitter.value(chosen, index, nest)
    there = tuple(Index(f"({at})") if dim == axis else here for dim, here in enumerate(index))
    nest.append(f"{name}[{position(index, kind.shape)}] = {array}[{position(there, source.type.shape)}];")
    emitter.close(nest)
    emitter.arrays[op.result] = name


def concatenate(emitter: Emitter, op: Op) -> None:
    """``tl.cat``."""
    name, offset = emitter.array(op.result.type), 0
    for operand in op.operands:
        emitter.prepare(operand)
        emitter.fill(operand, f"({name} + {offset})")
        offset += operand.type.size
    emitter.arrays[op.result] = name


def histogram(emitter: Emitter, op: Op) -> None:
    """``tl.histogram``."""
    kind, source = op.result.type, op.operands[0]
    emitter.prepare(*op.operands)
    name = emitter.array(kind)
    emitter.whole(kind.size, f"{name}[i] = 0;")
    nest, index = emitter.nest(source.type.shape)
    bin_, *mask = (emitter.value(operand, index, nest) for operand in op.operands)
    inside = f"(hp_u64){bin_} < {kind.size}u"
    nest.append(f"if ({inside}{f' && {mask[0]}' if mask else ''}) HP_INCREMENT({name}[{bin_}]);")
    emitter.close(nest, vectorize=False)
    emitter.arrays[op.result] = name


def dot(emitter: Emitter, op: Op) -> None:
    """``tl.dot``: a blocked micro-kernel on arrays of the result's type."""
    left, right, start = op.operands
    tiles = [_tile(emitter, operand, op.result.type.element) for operand in (left, right)]
    emit_dot(emitter, op, tiles, (left.type.shape[-2], right.type.shape[-1], left.type.shape[-1]), start)


def emit_dot(emitter: Emitter, op: Op, tiles: list[str], sizes: tuple[int, int, int], start: Value) -> None:
    """Add the product of two tiles to ``start``, in place if it has no other use. Sizes: rows, columns, depth."""
    kind = op.result.type
    rows, columns, depth = sizes
    name = emitter.arrays.get(start, "")
    block = op.block
    own = block is not None and (start in block.arguments or (start.op is not None and start.op.block is block))
    if not name or len(start.users) > 1 or not own:
        emitter.prepare(start)
        name = emitter.array(kind)
        emitter.fill(start, name)
    emitter.arrays[op.result] = name
    emitter.emit(
        f"for (hp_i32 n = 0; n < {kind.size // (rows * columns)}; ++n) {{",
        f"HP_DOT({dtypes.register(kind.element)}, {rows}, {columns}, {depth}, ({tiles[0]} + n * {rows * depth}), "
        f"({tiles[1]} + n * {depth * columns}), ({name} + n * {rows * columns}))",
        "}",
    )
    emitter.barrier()
    if kind.element in dtypes.NARROW:
        rounded = dtypes.rounded(kind.element, f"{name}[i]")
        emitter.whole(kind.size, f"{name}[i] = {rounded};")


def _tile(emitter: Emitter, value: Value, element: str) -> str:
    """An array of the value in the type of the result."""
    if dtypes.register(value.type.element) == dtypes.register(element):
        return emitter.materialize(value)
    emitter.prepare(value)
    name = emitter.array(Type(value.type.shape, element))
    emitter.fill(value, name, dtypes.register(element))
    return name
