"""Which tensors of a kernel become arrays, and which are computed element by element inside the loops that use them.

Emission starts at *sinks*: a store, a reduction, a dot, the end of a loop body. A sink is one nest of loops over its
elements. Elementwise operations and operations that only move elements are computed inside of the nests of the sinks
that need them, so that a chain of them is one loop without temporaries. A value becomes an array if it is expensive and
several sinks need it, or if it crosses a region.
"""

from __future__ import annotations

from hardpoint.triton.dtypes import is_float
from hardpoint.triton.ir import Block, Function, Op, Value, walk

#: Operations that only say which element of the operand to take.
MOVES = frozenset({"tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split"})
FUSIBLE = MOVES | {
    "tt.addptr",
    "tt.bitcast",
    "tt.clampf",
    "tt.extern_elementwise",
    "tt.fp_to_fp",
    "tt.int_to_ptr",
    "tt.load",
    "tt.make_range",
    "tt.mulhiui",
    "tt.precise_divf",
    "tt.precise_sqrt",
    "tt.ptr_to_int",
    "tt.splat",
    "ub.poison",
}
FREE = MOVES | {"tt.splat", "tt.make_range", "arith.constant", "tt.bitcast", "ub.poison"}
DIVISIONS = frozenset({"arith.divsi", "arith.divui", "arith.remsi", "arith.remui"})
#: From this weight on, a value is kept rather than computed again.
EXPENSIVE = 8
#: The same for integers: those are indices, and C vectorizes loads better if it sees how they are computed.
EXPENSIVE_INTEGER = 32
#: Uses of an integer that show that it is not a plain address, and may wrap around.
BIT_PATTERNS = frozenset({"arith.xori", "arith.shli", "arith.shrui", "arith.shrsi", "tt.mulhiui"})


def is_fusible(op: Op) -> bool:
    """Whether an operation on tensors can be computed for one element at a time, at any place."""
    return op.kind in FUSIBLE or op.kind.startswith(("arith.", "math."))


def multiplies_work(op: Op) -> bool:
    """Whether a broadcast repeats elements in an outer dimension, so that inner loops compute them again and again."""
    if op.kind != "tt.broadcast":
        return False
    source, to = op.operands[0].type.shape, op.result.type.shape
    inner = max((axis for axis, size in enumerate(source) if size > 1), default=-1)
    return any(source[axis] == 1 and to[axis] > 1 for axis in range(inner))


class Usage:
    """Facts about the values of one kernel."""

    def __init__(self, function: Function) -> None:
        self._sinks: dict[Value, frozenset[Op | Block]] = {}
        self.weights: dict[Value, int] = {}
        self.kept: set[Value] = set()
        self.addresses = _addresses(function)
        #: The counters of loops, with their loops.
        self.counters = {op.regions[0][0].arguments[0]: op for op in walk(function.blocks) if op.kind == "scf.for"}
        self.loads_scalars = any(op.kind == "tt.load" and not op.result.type.shape for op in walk(function.blocks))
        for op in walk(function.blocks):
            for value in op.results:
                if value.type.shape and is_fusible(op):
                    self._weigh(op, value)

    def sinks(self, value: Value) -> frozenset[Op | Block]:
        """The operations whose loops compute this value; for users in other blocks, that block."""
        if value not in self._sinks:
            assert value.op is not None
            home = value.op.block
            found: set[Op | Block] = set()
            for user in value.users:
                if user.block is not home:
                    assert user.block is not None
                    found.add(user.block)
                elif is_fusible(user):
                    for result in user.results:
                        found |= self.sinks(result)
                else:
                    found.add(user)
            self._sinks[value] = frozenset(found)
        return self._sinks[value]

    def crosses(self, value: Value) -> bool:
        """Whether a user of the value is in another block."""
        return any(isinstance(sink, Block) for sink in self.sinks(value))

    def wraps(self, value: Value) -> bool:
        """Whether integer arithmetic that gives this value may wrap around."""
        return value not in self.addresses

    def _weigh(self, op: Op, value: Value) -> None:
        weight = _own_weight(op)
        for operand in dict.fromkeys(op.operands):
            if operand not in self.kept:
                weight += self.weights.get(operand, 0)
        self.weights[value] = weight
        limit = EXPENSIVE if is_float(value.type.element) or op.kind == "tt.load" else EXPENSIVE_INTEGER
        if weight < limit or op.kind in FREE:
            return
        if _is_repeated(value) or len(self.sinks(value)) > 1 or self.crosses(value):
            self.kept.add(value)


def _is_repeated(value: Value) -> bool:
    """Whether a broadcast that multiplies work takes the value, moved or not."""
    return any(multiplies_work(user) or (user.kind in MOVES and _is_repeated(user.result)) for user in value.users)


def _own_weight(op: Op) -> int:
    if op.kind in FREE:
        return 0
    if op.kind in DIVISIONS:
        divisor = op.operands[1].op
        return 2 if divisor is not None and divisor.kind == "arith.constant" else EXPENSIVE_INTEGER
    costly = ("tt.load", "arith.divf", "arith.remf", "tt.precise_divf", "tt.precise_sqrt", "tt.extern_elementwise")
    return EXPENSIVE if op.kind in costly or op.kind.startswith("math.") else 1


def _addresses(function: Function) -> set[Value]:
    """Integers that are offsets of pointers: assumed not to wrap, so that C sees which elements are neighbors."""
    found: set[Value] = set()
    todo = [op.operands[1] for op in walk(function.blocks) if op.kind == "tt.addptr"]
    while todo:
        value = todo.pop()
        if value in found or value.op is None or not is_fusible(value.op) or value.op.kind == "tt.load":
            continue
        if any(user.kind in BIT_PATTERNS for user in value.users):
            continue
        found.add(value)
        todo += value.op.operands
    return found
