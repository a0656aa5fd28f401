"""Masks of the form ``offset + arange < limit``: the number of leading elements that are on.

Most masks of most kernels have this form in the innermost loop. That loop is then split: no mask up to the limit, and
the mask off after it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardpoint.triton.ir import Op, Value
from hardpoint.triton.nest import ZERO, Index, Nest, reshaped

if TYPE_CHECKING:
    from hardpoint.triton.emitter import Emitter

MOVES = ("tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape")
#: Predicate -> whether the limit is on the right side, and what is added to it.
LIMITS = {"slt": (True, 0), "sle": (True, 1), "sgt": (False, 0), "sge": (False, 1)}


def moved_index(op: Op, value: Value, index: tuple[Index, ...]) -> tuple[Index, ...]:
    """The source position of an element of a moved tensor."""
    source = op.operands[0].type.shape
    if op.kind == "tt.expand_dims":
        axis = op.integer("axis")
        return index[:axis] + index[axis + 1 :]
    if op.kind == "tt.broadcast":
        return tuple(ZERO if size == 1 else at for size, at in zip(source, index, strict=True))
    if op.kind == "tt.trans":
        order = [int(axis) for axis in op.attributes["order"].partition(":")[2].strip(" >").split(",")]
        return tuple(index[order.index(axis)] for axis in range(len(order)))
    return reshaped(index, value.type.shape, source)


class Prefix:
    """The analysis of the masks of one nest with respect to its innermost loop."""

    def __init__(self, emitter: Emitter, nest: Nest) -> None:
        self.emitter, self.nest = emitter, nest
        self.variable = nest.innermost
        self.size = nest.loops[nest.outer].size
        #: For each mask: conditions that do not depend on the loop, and numbers of elements that are on.
        self.found: list[tuple[frozenset[str], frozenset[str]]] = []
        #: Memoized answers about values, since the number of paths to a value grows exponentially.
        self.known: dict[tuple[str, Value, tuple[Index, ...]], bool] = {}
        #: Parts of the mask under analysis.
        self.visited: dict[tuple[Value, tuple[Index, ...]], bool] = {}

    def add(self, mask: Value, index: tuple[Index, ...]) -> bool:
        """Analyze a mask. Returns whether it has the form."""
        conditions: set[str] = set()
        limits: set[str] = set()
        self.visited = {}
        if not self._mask(mask, index, conditions, limits):
            return False
        self.found.append((frozenset(conditions), frozenset(limits)))
        return True

    def emit(self, name: str, depth: int) -> None:
        """Define the number of elements for which all masks are on, before the innermost loop."""
        conditions = dict.fromkeys(text for found, _ in self.found for text in sorted(found))
        limits = dict.fromkeys(text for _, found in self.found for text in sorted(found))
        whole = f"{' && '.join(conditions)} ? {self.size} : 0" if conditions else str(self.size)
        lines = [f"hp_i64 {name}_ = {whole};"]
        lines += [f"{{ const hp_i64 limit = {text}; if (limit < {name}_) {name}_ = limit; }}" for text in limits]
        lines.append(f"const hp_i32 {name} = {name}_ < 0 ? 0 : (hp_i32){name}_;")
        for line in lines:
            self.nest.append(line, depth)

    @property
    def single(self) -> bool:
        """Whether all masks are the same, so that none is on after the limit."""
        return len(set(self.found)) == 1

    def _moves(self, index: tuple[Index, ...]) -> bool:
        return any(self.variable in at.text for at in index)

    def _text(self, value: Value, index: tuple[Index, ...]) -> str:
        """A value where the innermost loop's variable is 0."""
        at_start = tuple(ZERO if at.text == self.variable else at for at in index)
        return self.emitter.value(value, at_start, self.nest, keep=False)

    def _mask(self, value: Value, index: tuple[Index, ...], conditions: set[str], limits: set[str]) -> bool:
        key = value, index
        if key not in self.visited:
            self.visited[key] = self._find_mask(value, index, conditions, limits)
        return self.visited[key]

    def _find_mask(self, value: Value, index: tuple[Index, ...], conditions: set[str], limits: set[str]) -> bool:
        if not value.type.shape or not self._moves(index) or self._is_uniform(value, index):
            conditions.add(self._text(value, index))
            return True
        op = value.op
        if op is None or value in self.emitter.arrays:
            return False
        if op.kind in MOVES:
            return self._mask(op.operands[0], moved_index(op, value, index), conditions, limits)
        if op.kind == "arith.andi":
            return all(self._mask(operand, index, conditions, limits) for operand in op.operands)
        if op.kind != "arith.cmpi" or op.keyword() not in LIMITS:
            return False
        limit_right, more = LIMITS[op.keyword()]
        counter, limit = op.operands if limit_right else op.operands[::-1]
        if not self._counts(counter, index) or not self._is_uniform(limit, index):
            return False
        limits.add(f"(hp_i64){self._text(limit, index)} - {self._text(counter, index)}{f' + {more}' if more else ''}")
        return True

    def _is_uniform(self, value: Value, index: tuple[Index, ...]) -> bool:
        """Whether a value is the same in all iterations of the innermost loop."""
        key = ("uniform", value, index)
        if key not in self.known:
            self.known[key] = self._find_uniform(value, index)
        return self.known[key]

    def _find_uniform(self, value: Value, index: tuple[Index, ...]) -> bool:
        if not value.type.shape or not self._moves(index):
            return True
        op = value.op
        if op is None or value in self.emitter.arrays or op.kind in ("tt.load", "tt.make_range", "tt.join", "tt.split"):
            return False
        if op.kind in ("arith.constant", "tt.splat"):
            return True
        if op.kind in MOVES:
            return self._is_uniform(op.operands[0], moved_index(op, value, index))
        if not op.kind.startswith("arith.") or not op.operands:
            return False
        return all(self._is_uniform(operand, index) for operand in op.operands)

    def _counts(self, value: Value, index: tuple[Index, ...]) -> bool:
        """Whether a value grows by one in each iteration."""
        key = ("counts", value, index)
        if key not in self.known:
            self.known[key] = self._find_counts(value, index)
        return self.known[key]

    def _find_counts(self, value: Value, index: tuple[Index, ...]) -> bool:
        op = value.op
        if op is None or value in self.emitter.arrays:
            return False
        if op.kind == "tt.make_range":
            return index[0].text == self.variable
        if op.kind in MOVES:
            return self._counts(op.operands[0], moved_index(op, value, index))
        if op.kind == "arith.extsi":
            return self._counts(op.operands[0], index)
        if op.kind == "arith.addi":
            left, right = op.operands
            return (self._counts(left, index) and self._is_uniform(right, index)) or (
                self._counts(right, index) and self._is_uniform(left, index)
            )
        return op.kind == "arith.subi" and (
            self._counts(op.operands[0], index) and self._is_uniform(op.operands[1], index)
        )
