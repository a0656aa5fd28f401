"""Rewrites pointers and offsets that a loop advances by the same step each time.

``a += step`` carries a whole tile of pointers from one iteration to the next. ``a = start + n * step``, where n is the
iteration number, needs no tile, and C sees that neighboring elements are neighbors in memory.
"""

from __future__ import annotations

from hardpoint.triton.ir import Block, Function, Op, Type, Value, walk


def simplify_inductions(function: Function) -> None:
    """Rewrite the loops of a kernel in place."""
    for op in [op for op in walk(function.blocks) if op.kind == "scf.for"]:
        block = op.regions[0][0]
        if not block.ops or block.ops[-1].kind != "scf.yield":
            continue
        inside = {result for inner in walk([block]) for result in inner.results} | set(block.arguments)
        for number in reversed(range(len(op.results))):
            _simplify(op, block, number, inside)


def _simplify(loop: Op, block: Block, number: int, inside: set[Value]) -> None:
    carried, end = block.arguments[1 + number], block.ops[-1]
    advance = end.operands[number].op
    if advance is None or advance.block is not block or not carried.type.shape:
        return
    if advance.kind not in ("tt.addptr", "arith.addi") or advance.operands[0] is not carried:
        return
    step = advance.operands[1]
    if step in inside and not (step.op is not None and step.op.kind in ("arith.constant", "tt.splat")):
        return
    if step in inside and step.op is not None and step.op.operands and step.op.operands[0] in inside:
        return
    if loop.results[number].users:  # the value after the last iteration is needed: keep it as it is
        return
    start = loop.operands[3 + number]
    new = _Builder(loop, block)
    if step in inside and step.op is not None:
        step = new.copy(step.op)
    offset = new.elementwise("arith.muli", [step, new.splat(new.iteration(), step.type)], step.type)
    current = new.elementwise(advance.kind, [start, offset], carried.type)
    for user in list(carried.users):
        user.operands = [current if value is carried else value for value in user.operands]
        user.targets = [(label, [current if v is carried else v for v in passed]) for label, passed in user.targets]
        current.users.append(user)
    _remove(loop, block, number)


def _remove(loop: Op, block: Block, number: int) -> None:
    end = block.ops[-1]
    yielded = end.operands.pop(number)
    yielded.users.remove(end)
    start = loop.operands.pop(3 + number)
    start.users.remove(loop)
    block.arguments.pop(1 + number)
    loop.results.pop(number)
    if yielded.op is not None and not yielded.users:
        block.ops.remove(yielded.op)
        for value in yielded.op.operands:
            value.users.remove(yielded.op)


class _Builder:
    """Adds operations at the start of a loop's body."""

    def __init__(self, loop: Op, block: Block) -> None:
        self.loop, self.block = loop, block
        self.at = 0

    def add(self, kind: str, operands: list[Value], result: Type, modifiers: str = "") -> Value:
        op = Op(kind, operands, modifiers=modifiers, location=self.loop.location, block=self.block)
        op.results = [Value(result, op)]
        for value in operands:
            value.users.append(op)
        self.block.ops.insert(self.at, op)
        self.at += 1
        return op.result

    def elementwise(self, kind: str, operands: list[Value], result: Type) -> Value:
        return self.add(kind, operands, result)

    def copy(self, op: Op) -> Value:
        return self.add(op.kind, list(op.operands), op.result.type, op.modifiers)

    def iteration(self) -> Value:
        """The number of the iteration, from 0."""
        low, _, step = self.loop.operands[:3]
        counter = self.block.arguments[0]
        passed = self.add("arith.subi", [counter, low], counter.type)
        return self.add("arith.divsi", [passed, step], counter.type)

    def splat(self, value: Value, kind: Type) -> Value:
        if value.type.element != kind.element:
            bits = [int(t.element[1:]) if t.element != "index" else 64 for t in (value.type, kind)]
            value = self.add("arith.trunci" if bits[0] > bits[1] else "arith.extsi", [value], Type((), kind.element))
        return self.add("tt.splat", [value], kind)
