"""Triton's tile IR (TTIR) as Python objects: types, values, operations, blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field


class LoweringError(NotImplementedError):
    """A Triton kernel contains something that cannot run on the device."""


@dataclass(frozen=True)
class Type:
    """A scalar, or a tensor of scalars. ``element`` is ``f32``, ``i1``, ..., or ``*f32`` for a pointer."""

    shape: tuple[int, ...]
    element: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def is_pointer(self) -> bool:
        """Whether the elements are pointers."""
        return self.element.startswith("*")

    def __str__(self) -> str:
        return f"tensor<{'x'.join(map(str, self.shape))}x{self.element}>" if self.shape else self.element


@dataclass(eq=False)
class Value:
    """A result of an operation, or an argument of a block or function."""

    type: Type
    op: Op | None = None
    users: list[Op] = field(default_factory=list)


@dataclass(eq=False)
class Op:
    """One operation.

    Attributes:
        kind: Name with the dialect: ``arith.addf``.
        modifiers: Text between the name and the types, without attributes and strings: predicates and options.
        strings: Quoted strings, in order.
        targets: Labels of the blocks that a branch may go to, each with the values of that block's arguments.
        location: Line of the user's program: ``file.py:12``; empty if unknown.
    """

    kind: str
    operands: list[Value]
    results: list[Value] = field(default_factory=list)
    modifiers: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    strings: list[str] = field(default_factory=list)
    regions: list[list[Block]] = field(default_factory=list)
    targets: list[tuple[str, list[Value]]] = field(default_factory=list)
    location: str = ""
    block: Block | None = None

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]

    def integer(self, name: str) -> int:
        """An integer attribute: ``axis = 0 : i32``."""
        return int(self.attributes[name].split(":")[0])

    def keyword(self) -> str:
        """The first word: the predicate of a comparison, the operation of an atomic."""
        return self.modifiers.split(",")[0].strip()

    def unsupported(self, what: str = "") -> LoweringError:
        """The error that names this operation and its line."""
        place = f" at {self.location}" if self.location else ""
        return LoweringError(f"{self.kind}{place}: {what or 'this operation has no lowering'}")


@dataclass(eq=False)
class Block:
    """A straight list of operations with arguments."""

    label: str = ""
    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(eq=False)
class Function:
    """A kernel."""

    name: str
    arguments: list[Value]
    blocks: list[Block]


def walk(blocks: list[Block]) -> Iterator[Op]:
    """All operations, those of nested regions included."""
    for block in blocks:
        for op in block.ops:
            yield op
            for region in op.regions:
                yield from walk(region)


#: Operations that write to memory, or that other programs and the host can see.
EFFECTS = frozenset(
    {"tt.store", "tt.volatile_load", "tt.atomic_rmw", "tt.atomic_cas", "tt.print", "tt.assert"},
)


def writes(op: Op) -> bool:
    """Whether the operation, or one nested in it, has an effect on memory."""
    return op.kind in EFFECTS or any(inner.kind in EFFECTS for region in op.regions for inner in walk(region))
