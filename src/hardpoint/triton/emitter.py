"""The state of a kernel's translation to C, and the values of tensors inside of loop nests."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from hardpoint.triton import dtypes, elements, store_groups, tiling
from hardpoint.triton.ir import Function, Op, Type, Value
from hardpoint.triton.masks import Prefix, moved_index
from hardpoint.triton.nest import UNKNOWN, ZERO, Index, Known, Loop, Nest, Render, inner_text, position
from hardpoint.triton.spread import open_loop, spread
from hardpoint.triton.target import Target
from hardpoint.triton.usage import MOVES, Usage, is_fusible

Handler = Callable[["Emitter", Op], None]

#: Smaller nests are not worth a second version without masks.
TWO_VERSIONS = 64
#: Shorter loops are not split where their masks end.
SPLIT = 16


class Emitter:
    """Lines of C, and the location of each of the kernel's values.

    Attributes:
        store_groups: Stores that one nest does together.
        scalars: C expressions of scalars.
        arrays: Names of the arrays of tensors that are in memory.
        target: The dialect, and the size of a group.
        heap: Whether arrays are in one piece of memory, ``workspace``, rather than on the stack.
        top: Bytes of the workspace in use at this point of the kernel.
        array_bytes: Maximum number of bytes in use at a time.
        flags: Variables that say whether all elements of a mask are on.
        guarded: Numbers of the arguments whose accesses are checked.
        loads: Loads that are deferred to a later nest, unless a store comes first.
        callers: Calls of the functions whose bodies are being emitted, with the labels of their ends.
    """

    def __init__(self, function: Function, handlers: Mapping[str, Handler], target: Target, heap: bool = False) -> None:
        self.function = function
        self.handlers = handlers
        self.store_groups = store_groups.find(function)
        self.usage = Usage(function, self.store_groups)
        self.target = target
        self.heap = heap or target.spreads
        self.lines: list[str] = []
        self.scalars: dict[Value, str] = {}
        self.arrays: dict[Value, str] = {}
        self.flags: dict[Value, str] = {}
        self.top = self.array_bytes = 0
        self.loads: list[Value] = []
        self.finished: set[Op] = set()
        self.guarded: set[int] = set()
        self.callers: list[tuple[Op, str]] = []
        self._serial = 0
        self._fresh_arrays: list[tuple[Value, str]] = []

    # ---- text

    def name(self, stem: str) -> str:
        """A new name."""
        self._serial += 1
        return f"{stem}{self._serial}"

    def emit(self, *lines: str) -> None:
        """Add lines."""
        self.lines += lines

    def array(self, kind: Type) -> str:
        """Declare an array and return its name."""
        name, word = self.name("b"), dtypes.local(kind.element)
        size = max(kind.size, 1)
        if self.heap:
            self.emit(f"{word} HP_TILE* const {name} = ({word} HP_TILE*)(workspace + {self.top});")
        else:
            self.emit(f"HP_ALIGNED {word} {name}[{size}];")
        self.top += (size * dtypes.local_bytes(kind.element) + 63) // 64 * 64
        self.array_bytes = max(self.array_bytes, self.top)
        return name

    def whole(self, size: int, statement: str) -> None:
        """A statement for each number ``i`` below a size."""
        if self.target.spreads:
            self.emit(*open_loop("i", size, self.target.group_size), statement, "}}")
            self.barrier()
        else:
            self.emit(f"for (hp_i32 i = 0; i < {size}; ++i) {statement}")

    def barrier(self) -> None:
        """Emit a barrier of the group's work-items."""
        if self.target.spreads:
            self.emit("hp_barrier();")

    def first_element(self, array: str, kind: Type) -> str:
        """The expression of an array's first element, as a scalar."""
        if not self.target.spreads:
            return f"{array}[0]"
        name = self.variable(dtypes.register(kind.element), f"{array}[0]")
        self.barrier()  # the array may be written again
        return name

    def scalar(self, value: Value) -> str:
        """The C expression of a scalar."""
        return self.scalars[value]

    def variable(self, kind: str, text: str) -> str:
        """Define a variable and return its name."""
        name = self.name("s")
        self.emit(f"{kind} const {name} = {text};")
        return name

    # ---- operations

    def run(self, ops: list[Op]) -> None:
        """Emit a list of operations."""
        for op in ops:
            handler = self.handlers.get(op.kind)
            if handler is not None:
                handler(self, op)
                self.finished.add(op)
            elif not is_fusible(op):
                raise op.unsupported()
            elif op.result.type.shape or (op.operands and op.operands[0].type.shape):
                self._pass(op)
            else:
                self._run_scalar(op)

    def _pass(self, op: Op) -> None:
        """A tensor is computed where it is used, unless the use is in another block."""
        for value in op.results:
            if value in self.usage.stored and self.usage.crosses(value):
                self.materialize(value)
            elif op.kind == "tt.load":
                self.loads.append(value)

    def _run_scalar(self, op: Op) -> None:
        given = [self.scalar(operand) for operand in op.operands]
        if op.kind in ("arith.constant", "ub.poison"):
            self.scalars[op.result] = elements.constant(op)
            return
        if op.kind == "tt.load":
            text = self.loaded(op, given)
        else:
            text = elements.expression(op, given, self.usage.wraps(op.result))
        self.scalars[op.result] = self.variable(dtypes.register(op.result.type.element), text)

    # ---- nests

    def nest(
        self, shape: tuple[int, ...], order: list[int] | None = None, part: int = 0
    ) -> tuple[Nest, tuple[Index, ...]]:
        """A nest over the elements of a shape, and the index of an element.

        ``order``: dimensions, outermost first. ``part``: run over the innermost dimension in parts of this size.
        """
        order = list(range(len(shape))) if order is None else order
        loops = [Loop(self.name("i"), shape[axis]) for axis in order]
        index = [Index(loops[order.index(axis)].variable, order.index(axis) + 1) for axis in range(len(shape))]
        if part:
            loops[-1] = Loop(loops[-1].variable, loops[-1].size, part)
            loops.append(Loop(self.name("i"), part))
            index[order[-1]] = Index(inner_text(loops, part), len(loops))
        return Nest(loops, part), tuple(index)

    def nest_for(self, values: list[Value], shape: tuple[int, ...]) -> tuple[Nest, tuple[Index, ...]]:
        """A nest that computes these values."""
        return self.nest(shape, part=tiling.part(self, values, shape))

    def close(self, nest: Nest, vectorize: bool = True, masked: bool = False) -> None:
        """Emit a nest.

        ``vectorize``: its innermost loop's iterations are independent. ``masked``: nothing happens where all masks are
        off, except that arrays are filled.
        """
        if self.target.spreads:
            self.emit(*spread(nest, self.name("e"), self.target.group_size))
            self.barrier()
            self.note_arrays()
            return
        if not vectorize:
            nest.masks.clear()
        cut = self.cut(nest)
        if cut is None:
            self.emit_versions(nest, lambda known: nest.render(known, vectorize=vectorize))
            return
        number, off = cut
        ends = masked and bool(off) and not self._fresh_arrays
        loop, depth, on = nest.loops[-1], len(nest.loops), dict.fromkeys(nest.masks, "1")

        def body(known: Known) -> list[str]:
            """The innermost lines. Masks of outer loops get their known values too."""
            own = {statement.name for statement in nest.statements[depth]}
            outer = [f"hp_i32 const {name} = {value};" for name, value in known.items() if name not in own]
            return [*outer, *nest.body(depth, known)]

        def inner(_: Known) -> list[str]:
            if nest.part:
                parts = nest.loops[-2]
                lines = [parts.head(), *nest.body(depth - 1, UNKNOWN)]
                lines += [f"if ({parts.variable} + {nest.part} <= {number}) {{"]
                lines += ["HP_VECTORIZE", loop.head(), *body(on), "}", "} else {"]
                return [*lines, "HP_VECTORIZE", loop.head(), *body(UNKNOWN), "}", "}", "}"]
            lines = ["HP_VECTORIZE", loop.head(last=number), *body(on), "}"]
            if ends:
                return lines
            return [*lines, "HP_VECTORIZE", loop.head(first=number), *body(off), "}"]

        self.emit(*nest.render(UNKNOWN, inner))
        self.note_arrays()

    def cut(self, nest: Nest) -> tuple[str, Known] | None:
        """If all masks have the form ``offset + arange < limit`` in the innermost loop: a variable with the number of
        iterations for which all masks are on, and the masks' known values after these."""
        if not nest.masks or not nest.loops or nest.loops[nest.outer].size < SPLIT:
            return None
        prefix = Prefix(self, nest)
        if not all(prefix.add(value, index) for value, index in nest.masks.values()):
            return None
        name = self.name("cut")
        prefix.emit(name, nest.outer)
        return name, dict.fromkeys(nest.masks, "0") if prefix.single else UNKNOWN

    def emit_versions(self, nest: Nest, render: Render) -> None:
        """Emit a nest twice, once for tiles where all masks are on: most tiles are, and masks halve the speed."""
        size = _size(nest)
        masks = [value for value, _ in nest.masks.values()]
        if not masks or not all(map(self.is_cheap, masks)) or size < TWO_VERSIONS:
            self.emit(*render(UNKNOWN))
        else:
            flags = dict.fromkeys(flag for value in masks for flag in self.all_on(value))
            on = dict.fromkeys(nest.masks, "1")
            self.emit(f"if ({' & '.join(flags)}) {{", *render(on), "} else {", *render(UNKNOWN), "}")
        self.note_arrays()

    def note_arrays(self) -> None:
        """After a nest: note the tensors that it has stored in arrays."""
        for value, name in self._fresh_arrays:
            self.arrays[value] = name
        self._fresh_arrays.clear()

    def all_on(self, mask: Value) -> list[str]:
        """Scalars that are all true if every element of a mask is."""
        parts, flags = [mask], []
        for value in parts:  # the list grows
            op = value.op
            if not value.type.shape:
                flags.append(self.scalar(value))
            elif value not in self.arrays and op is not None and op.kind in (*MOVES, "tt.splat", "arith.andi"):
                parts += [operand for operand in dict.fromkeys(op.operands) if operand not in parts]
            else:
                flags.append(self._flag(value))
        return flags

    def _flag(self, mask: Value) -> str:
        """A variable that says whether every element of a mask is on."""
        if mask not in self.flags:
            flag = self.flags[mask] = self.name("full")
            nest, index = self.nest(mask.type.shape)
            prefix = Prefix(self, nest)
            if len(nest.loops) == 1 and prefix.add(mask, index):
                prefix.emit(f"{flag}_cut", 0)
                nest.append(f"{flag} = {flag}_cut == {mask.type.size};", 0)
                self.emit(f"hp_i32 {flag};", "{", *nest.body(0, UNKNOWN), "}")
            else:
                element = self.value(mask, index, nest, keep=False)
                nest.append(f"{flag} &= {element};", nest.depth_of(element))
                self.emit(f"hp_i32 {flag} = 1;", *nest.render(UNKNOWN))
        return self.flags[mask]

    def is_cheap(self, value: Value) -> bool:
        """Whether a mask can be computed a second time."""
        return value in self.arrays or not value.type.shape or self.usage.weights.get(value, 1000) < 40

    def prepare(self, *values: Value) -> None:
        """Before a nest: compute into arrays the values that the nest would not visit in their own order."""
        seen: set[tuple[Value, bool]] = set()

        def visit(value: Value, own_order: bool) -> None:
            if not value.type.shape or value in self.arrays or (value, own_order) in seen:
                return
            seen.add((value, own_order))
            assert value.op is not None
            if not own_order and value in self.usage.stored:
                self.materialize(value)
                return
            for operand in value.op.operands:
                visit(operand, own_order and value.op.kind not in MOVES)

        for value in values:
            visit(value, True)

    def materialize(self, value: Value) -> str:
        """Compute a tensor into an array now, and return the array's name."""
        if value not in self.arrays:
            self.prepare(value)
            name = self.array(value.type)
            self.fill(value, name)
            self.arrays[value] = name
        return self.arrays[value]

    def fill(self, value: Value, name: str, kind: str = "") -> None:
        """Write a tensor into an array. ``kind``: C type to convert to."""
        nest, index = self.nest_for([value], value.type.shape)
        element = self.value(value, index, nest, keep=False)
        cast = f"({kind})" if kind else ""
        nest.append(f"{name}[{position(index, value.type.shape)}] = {cast}{element};")
        self.close(nest)

    # ---- values of elements

    def value(self, value: Value, index: tuple[Index, ...], nest: Nest, keep: bool = True) -> str:
        """The C expression of one element of a tensor, computed at the depth of the nest where its index is known.

        ``keep``: store the element if later nests need the tensor too.
        """
        if not value.type.shape:
            return self.scalar(value)
        if value in self.arrays:
            at = position(index, value.type.shape)
            nest.reads.add((self.arrays[value], at))
            return f"{self.arrays[value]}[{at}]"
        key = (value, tuple(at.text for at in index))
        if key not in nest.computed:
            nest.computed[key] = self._compute(value, index, nest, keep)
        return nest.computed[key]

    def _compute(self, value: Value, index: tuple[Index, ...], nest: Nest, keep: bool) -> str:
        op = value.op
        assert op is not None
        if not is_fusible(op):
            raise op.unsupported("its value is not available here")
        if op.kind in MOVES:
            return self._moved(op, value, index, nest)
        if op.kind == "tt.splat":
            return self.scalar(op.operands[0])
        if op.kind in ("arith.constant", "ub.poison"):
            return elements.constant(op)
        if op.kind == "tt.make_range":
            start = op.integer("start")
            return f"({start} + {index[0].text})" if start else index[0].text
        depth = max((at.depth for at in index), default=0)
        if _is_contiguous(op) and index[0] != ZERO:
            first = self.value(value, (ZERO,), nest)
            return nest.define(depth, dtypes.register(value.type.element), self.name("t"), f"{first} + {index[0].text}")
        text = self._load(op, index, nest) if op.kind == "tt.load" else self._element(op, index, nest)
        name = nest.define(depth, dtypes.register(value.type.element), self.name("t"), text)
        depths = [*range(1, nest.outer + 1), len(nest.loops)]
        whole = sorted(at.depth for at in index) == depths
        if keep and value in self.usage.stored and whole and value.type.size == _size(nest):
            array = self.array(value.type)
            nest.append(f"{array}[{position(index, value.type.shape)}] = {name};")
            self._fresh_arrays.append((value, array))
        return name

    def _element(self, op: Op, index: tuple[Index, ...], nest: Nest) -> str:
        given = [self.value(operand, index, nest) for operand in op.operands]
        if op.kind == "arith.divf" and op.result.type.element != "f64":
            found = self._quotient(op, given, index, nest)
            if found:
                return dtypes.rounded(op.result.type.element, found)
        if nest.part and op.kind in tiling.DIVISIONS and (found := self._divided(op, index, nest)):
            return found
        return elements.expression(op, given, self.usage.wraps(op.result))

    def _divided(self, op: Op, index: tuple[Index, ...], nest: Nest) -> str:
        """A division of consecutive numbers, if the parts of the innermost loop fit its divisor."""
        number = tiling.divisor(op)
        if number % nest.part or not tiling.counts(self, op.operands[0], index, nest.innermost, nest.part):
            return ""
        depth = len(nest.loops) - 1
        start = Index(nest.loops[-2].variable, depth)
        first = self.value(op.operands[0], tuple(start if at.text == nest.innermost else at for at in index), nest)
        kind = dtypes.register(op.result.type.element)
        sign = "/" if op.kind.startswith("arith.div") else "%"
        name = nest.define(depth, kind, self.name("t"), f"{first} {sign} {number}")
        return name if sign == "/" else f"({name} + {nest.loops[-1].variable})"

    def _quotient(self, op: Op, given: list[str], index: tuple[Index, ...], nest: Nest) -> str:
        """A division by a loop-invariant value: a vector division takes as long as ten products."""
        divisor = op.operands[1]
        while divisor.op is not None and divisor.op.kind in ("tt.broadcast", "tt.expand_dims", "tt.splat"):
            moved = divisor.op
            index = () if moved.kind == "tt.splat" else moved_index(moved, divisor, index)
            divisor = moved.operands[0]
        depth = max((at.depth for at in index), default=0)
        if depth >= len(nest.loops):
            return ""
        key = (op.operands[1], ("inverse", *(at.text for at in index)))
        if key not in nest.computed:
            name = nest.computed[key] = self.name("d")
            for stem, text in (
                ("scale", f"hp_division_scale({given[1]})"),
                ("scaled", f"({given[1]} * {name}scale)"),
                ("inverse", f"(1.0f / {name}scaled)"),
            ):
                nest.define(depth, "float", f"{name}{stem}", text)
        name = nest.computed[key]
        return f"hp_quotient({given[0]}, {name}scaled, {name}inverse, {name}scale)"

    def _load(self, op: Op, index: tuple[Index, ...], nest: Nest) -> str:
        given = [self.value(operand, index, nest) for operand in op.operands]
        if len(given) > 1 and op.operands[1].type.shape:
            self.note_mask(op.operands[1], given[1], index, nest)
        return self.loaded(op, given)

    def loaded(self, op: Op, given: list[str], qualifier: str = "") -> str:
        """The value of a load from its operands: pointer, mask, and the value where the mask is off."""
        element = op.result.type.element
        pointer = f"({qualifier} HP_GLOBAL {dtypes.memory(element)}*){given[0]}" if qualifier else given[0]
        text = dtypes.load(element, pointer)
        if inside := self.inside(op, given[0]):
            text = f"({inside} ? {text} : 0)"
        if len(given) > 1:
            text = f"{given[1]} ? {text} : {given[2] if len(given) > 2 else '0'}"
        return text

    def inside(self, op: Op, pointer: str) -> str:
        """In a guarded kernel, the check that an access is inside of the memory of the argument that it starts from."""
        if not self.target.guard or (argument := self.usage.argument(op.operands[0])) is None:
            return ""
        number = self.function.arguments.index(argument)
        self.guarded.add(number)
        element = op.operands[0].type.element[1:]
        line = op.location.rpartition(":")[2] or "0"
        return f"HP_INSIDE({number}, {pointer}, sizeof({dtypes.memory(element)}), {line})"

    def note_mask(self, value: Value, text: str, index: tuple[Index, ...], nest: Nest) -> None:
        """Note that a variable of the nest is a mask."""
        if text.isidentifier():
            nest.masks[text] = value, index

    def _moved(self, op: Op, value: Value, index: tuple[Index, ...], nest: Nest) -> str:
        if op.kind == "tt.split":
            index = (*index, Index(str(op.results.index(value))))
        elif op.kind == "tt.join":
            which, index = index[-1], index[:-1]
            if which.text in ("0", "1"):
                return self.value(op.operands[int(which.text)], index, nest)
            left, right = (self.value(operand, index, nest) for operand in op.operands)
            return f"({which.text} ? {right} : {left})"
        else:
            index = moved_index(op, value, index)
        return self.value(op.operands[0], index, nest)


def _is_contiguous(op: Op) -> bool:
    """Whether the program promises that a vector's elements are consecutive integers (tl.max_contiguous)."""
    shape = op.result.type.shape
    hint = op.attributes.get("tt.contiguity", "")
    return len(shape) == 1 and hint.startswith(f"dense<{shape[0]}>") and not op.result.type.is_pointer


def _size(nest: Nest) -> int:
    return math.prod(loop.size // loop.step for loop in nest.loops)
