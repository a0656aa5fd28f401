"""Which tensors of a kernel become arrays, and which are computed element by element inside the loops that use them.

Emission starts at *sinks*: a store, a reduction, a dot, the end of a loop body. A sink is one nest of loops over its
elements. Elementwise operations and operations that only move elements are computed inside of the nests of the sinks
that need them, so that a chain of them is one loop without temporaries. A value becomes an array if it is expensive and
several sinks need it, or if it crosses a region.
"""

from __future__ import annotations

from collections.abc import Mapping

from hardpoint.triton.dtypes import is_float
from hardpoint.triton.ir import Block, Function, Op, Value, walk

#: Operations that only choose which element of the operand to take.
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
#: A value of at least this weight is stored rather than computed again.
EXPENSIVE = 8
#: The same for integers. They are indices, and C vectorizes loads better if it sees how they are computed.
EXPENSIVE_INTEGER = 32
#: Uses of an integer that show that it is not a plain address, and may wrap around. Random numbers are not among them:
#: they are drawn for an index, by multiplying it.
BIT_PATTERNS = frozenset(
    f"arith.{kind}" for kind in ("andi", "ori", "xori", "shli", "shrui", "shrsi", "divui", "remui", "trunci", "uitofp")
)
#: Operations from an offset to the integers that it is made of.
OFFSETS = MOVES | {"tt.splat", *(f"arith.{kind}" for kind in ("addi", "subi", "muli", "extsi", "divsi", "remsi"))}
#: Coordinates are computed from integers below this, hashes from larger factors.
HASH_FACTOR = 1 << 16


def is_fusible(op: Op) -> bool:
    """Whether an operation on tensors can be computed one element at a time, at any point."""
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

    def __init__(self, function: Function, store_groups: Mapping[Op, list[Op]] | None = None) -> None:
        self._groups = store_groups or {}
        self._sinks: dict[Value, frozenset[Op | Block]] = {}
        self.weights: dict[Value, int] = {}
        self.stored: set[Value] = set()
        self.addresses = _addresses(function)
        self._arguments = set(function.arguments)
        #: Values that loops carry, with what they start with.
        self._starts = {
            carried: start
            for op in walk(function.blocks)
            if op.kind == "scf.for"
            for carried, start in zip(op.regions[0][0].arguments[1:], op.operands[3:], strict=True)
        }
        #: The counters of loops, with their loops.
        self.counters = {op.regions[0][0].arguments[0]: op for op in walk(function.blocks) if op.kind == "scf.for"}
        self.loads_scalars = any(op.kind == "tt.load" and not op.result.type.shape for op in walk(function.blocks))
        for op in walk(function.blocks):
            for value in op.results:
                if value.type.shape and is_fusible(op):
                    self._weigh(op, value)

    def sinks(self, value: Value) -> frozenset[Op | Block]:
        """The operations whose loops compute this value; for users in other blocks, that block.

        The last store of a group stands for all of them.
        """
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
                    found.add(self._groups[user][-1] if user in self._groups else user)
            self._sinks[value] = frozenset(found)
        return self._sinks[value]

    def crosses(self, value: Value) -> bool:
        """Whether a user of the value is in another block."""
        return any(isinstance(sink, Block) for sink in self.sinks(value))

    def wraps(self, value: Value) -> bool:
        """Whether integer arithmetic that gives this value may wrap around."""
        return value not in self.addresses

    def argument(self, pointer: Value) -> Value | None:
        """The argument of the kernel that a pointer was computed from, if that is known."""
        while True:
            if pointer in self._starts:
                pointer = self._starts[pointer]
            elif pointer.op is None:
                return pointer if pointer in self._arguments else None
            elif pointer.op.kind in ("tt.addptr", "tt.splat", "tt.bitcast", *MOVES):
                pointer = pointer.op.operands[0]
            else:
                return None

    def _weigh(self, op: Op, value: Value) -> None:
        weight = _own_weight(op)
        for operand in dict.fromkeys(op.operands):
            if operand not in self.stored:
                weight += self.weights.get(operand, 0)
        self.weights[value] = weight
        limit = EXPENSIVE if is_float(value.type.element) or op.kind == "tt.load" else EXPENSIVE_INTEGER
        if weight < limit or op.kind in FREE:
            return
        if _is_repeated(value) or len(self.sinks(value)) > 1 or self.crosses(value):
            self.stored.add(value)


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
    """Integers that are offsets of pointers: assumed not to wrap, so that C sees which elements are neighbors.

    What an offset is divided by or taken modulo is a coordinate, unless it contains the product of a hash function.
    """
    found: set[Value] = set()
    divided: set[Value] = set()
    todo = [(op.operands[1], False) for op in walk(function.blocks) if op.kind == "tt.addptr"]
    while todo:
        value, below_division = todo.pop()
        op = value.op
        if op is None or value in (divided if below_division else found):
            continue
        if any(user.kind in BIT_PATTERNS for user in value.users) or (below_division and _is_hashed(op)):
            continue
        found.add(value)
        if op.kind == "arith.select":
            todo += [(operand, below_division) for operand in op.operands[1:]]
        elif op.kind in OFFSETS:
            below_division |= op.kind in DIVISIONS
            todo += [(operand, below_division) for operand in op.operands]
    return found


def _is_hashed(op: Op) -> bool:
    if op.kind != "arith.muli":
        return False
    for operand in op.operands:
        while operand.op is not None and operand.op.kind in ("tt.splat", *MOVES):
            operand = operand.op.operands[0]
        if operand.op is not None and operand.op.kind == "arith.constant":
            digits = operand.op.modifiers.removeprefix("dense<").removesuffix(">").lstrip("-")
            if digits.isdigit() and int(digits) >= HASH_FACTOR:
                return True
    return False
