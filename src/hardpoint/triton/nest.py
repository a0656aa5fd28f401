"""Loop nests under construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hardpoint.triton.ir import Value


@dataclass(frozen=True)
class Index:
    """A C expression for a position along a dimension, and the number of loops that must be open to compute it."""

    text: str
    depth: int = 0


ZERO = Index("0")


@dataclass(frozen=True)
class Loop:
    """One loop of a nest."""

    variable: str
    size: int
    step: int = 1

    def head(self, first: int | str = 0, last: int | str | None = None, down: bool = False) -> str:
        """The loop's first line; ``first`` and ``last`` limit its range."""
        v, end = self.variable, self.size if last is None else last
        if down:
            return f"for (hp_i32 {v} = {end} - 1; {v} >= {first}; --{v}) {{"
        return f"for (hp_i32 {v} = {first}; {v} < {end}; {v} += {self.step}) {{"


@dataclass(frozen=True)
class Statement:
    """A line of C. With a name, it defines a variable of that name."""

    text: str
    type: str = ""
    name: str = ""

    def render(self, known: Known) -> str:
        """The line."""
        if not self.name:
            return self.text
        return f"{self.type} const {self.name} = {known.get(self.name, self.text)};"


#: Values of variables where they are known: ``1`` or ``0`` for masks.
Known = Mapping[str, str]
UNKNOWN: Known = {}
Render = Callable[[Known], list[str]]


class Nest:
    """Statements at each depth of a nest of loops, and the values that they compute.

    Attributes:
        part: If not 0, the last two loops run over one dimension, in parts of this size.
    """

    def __init__(self, loops: list[Loop], part: int = 0) -> None:
        self.loops, self.part = loops, part
        self.statements: list[list[Statement]] = [[] for _ in range(len(loops) + 1)]
        self.computed: dict[tuple[Value, tuple[str, ...]], str] = {}
        #: Variables that are masks of loads and stores -> the mask tensor and the element's index.
        self.masks: dict[str, tuple[Value, tuple[Index, ...]]] = {}
        #: Arrays that the nest reads, with the text of the element's number.
        self.reads: set[tuple[str, str]] = set()

    @property
    def outer(self) -> int:
        """Number of the loops around the innermost dimension."""
        return len(self.loops) - (2 if self.part else 1)

    @property
    def innermost(self) -> str:
        """The depth of the innermost dimension."""
        return inner_text(self.loops, self.part)

    def define(self, depth: int, kind: str, name: str, text: str) -> str:
        """Define a variable in the loop of that depth and return its name."""
        self.statements[depth].append(Statement(text, kind, name))
        return name

    def depth_of(self, name: str) -> int:
        """The depth of the loop that defines a variable; the innermost one if none does."""
        for depth, statements in enumerate(self.statements):
            if any(statement.name == name for statement in statements):
                return depth
        return len(self.loops)

    def append(self, text: str, depth: int = -1) -> None:
        """Add a line, by default to the innermost loop."""
        self.statements[depth].append(Statement(text))

    def body(self, depth: int, known: Known) -> list[str]:
        """The lines of one depth."""
        return [statement.render(known) for statement in self.statements[depth]]

    def render(
        self,
        known: Known,
        inner: Render | None = None,
        heads: list[str] | None = None,
        vectorize: bool = True,
    ) -> list[str]:
        """The nest in C.

        Args:
            known: Values of masks.
            inner: Gives the loops of the innermost dimension, by default plain ones.
            heads: First lines of the loops where they differ from the plain ones.
            vectorize: Whether the iterations of the innermost loop are independent.
        """
        heads = heads or [loop.head() for loop in self.loops]
        lines = ["{", *self.body(0, known)]
        plain = len(self.loops) - 1 if inner is None else self.outer
        for depth in range(1, plain + 1):
            lines += [heads[depth - 1], *self.body(depth, known)]
        if inner is not None:
            lines += inner(known)
        elif self.loops:
            pragma = ["HP_VECTORIZE"] if vectorize else []
            lines += [*pragma, heads[-1], *self.body(len(self.loops), known), "}"]
        return [*lines, "}" * max(plain, 0) + "}"]


def inner_text(loops: list[Loop], part: int) -> str:
    """The expression of the position in the innermost dimension."""
    return f"({loops[-2].variable} + {loops[-1].variable})" if part else loops[-1].variable


def position(index: tuple[Index, ...], shape: tuple[int, ...]) -> str:
    """The number of an element in row-major order."""
    text = ""
    for at, size in zip(index, shape, strict=True):
        if not text or text == "0":
            text = at.text
        else:
            text = f"({text}) * {size}" + ("" if at.text == "0" else f" + {at.text}")
    return text or "0"


def reshaped(index: tuple[Index, ...], shape: tuple[int, ...], source: tuple[int, ...]) -> tuple[Index, ...]:
    """The source position of an element of a reshaped tensor."""
    kept = [at for at, size in zip(index, shape, strict=True) if size != 1]
    if [size for size in shape if size != 1] == [size for size in source if size != 1]:
        return tuple(ZERO if size == 1 else kept.pop(0) for size in source)
    flat, depth = position(index, shape), max((at.depth for at in index), default=0)
    found, stride = [], 1
    for size in reversed(source):
        found.append(ZERO if size == 1 else Index(f"((hp_i32)((hp_u32)({flat}) / {stride}u % {size}u))", depth))
        stride *= size
    return tuple(reversed(found))
