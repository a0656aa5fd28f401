"""TTIR to C: one program of a Triton kernel is one group of a kernel in the portable dialect.

The kernel's arguments are followed by the three sizes of the grid (int64): a launch has one dimension, and the kernel
computes its program ids from the number of its group.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hardpoint.triton import debug_ops, dtypes, memory_ops, reductions, regions, scaled_dot
from hardpoint.triton.emitter import Emitter, Handler
from hardpoint.triton.induction import simplify_inductions
from hardpoint.triton.ir import Function, LoweringError, Op
from hardpoint.triton.libdevice import uses_special
from hardpoint.triton.parser import parse

#: More than this goes to the heap: threads of a device may have small stacks.
STACK_BYTES = 256 << 10
#: A kernel that needs more temporary memory for one program is refused.
MEMORY_BYTES = 256 << 20


class Source(NamedTuple):
    """A kernel in C."""

    name: str
    text: str
    special: bool
    asserts: bool
    array_bytes: int


def _program_id(emitter: Emitter, op: Op) -> None:
    emitter.scalars[op.result] = f"program{'xyz'.index(op.keyword())}"


def _num_programs(emitter: Emitter, op: Op) -> None:
    emitter.scalars[op.result] = f"grid{'xyz'.index(op.keyword())}"


def _unsplat(emitter: Emitter, op: Op) -> None:
    emitter.scalars[op.result] = f"{emitter.materialize(op.operands[0])}[0]"


def _nothing(emitter: Emitter, op: Op) -> None:
    """One thread runs a program: there is nothing to wait for, and nothing to be told."""


def _inline_assembly(emitter: Emitter, op: Op) -> None:
    raise op.unsupported("inline assembly is written for one kind of hardware; use tl or libdevice functions instead")


HANDLERS: dict[str, Handler] = {
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.unsplat": _unsplat,
    "tt.return": regions.return_,
    "tt.store": memory_ops.store,
    "tt.atomic_rmw": memory_ops.atomic_rmw,
    "tt.atomic_cas": memory_ops.atomic_cas,
    "tt.gather": memory_ops.gather,
    "tt.cat": memory_ops.concatenate,
    "tt.histogram": memory_ops.histogram,
    "tt.dot": memory_ops.dot,
    "tt.dot_scaled": scaled_dot.dot_scaled,
    "tt.reduce": reductions.reduce,
    "tt.scan": reductions.scan,
    "tt.map_elementwise": reductions.map_elementwise,
    "tt.print": debug_ops.print_,
    "tt.assert": debug_ops.assert_,
    "tt.elementwise_inline_asm": _inline_assembly,
    "scf.for": regions.for_loop,
    "scf.if": regions.condition,
    "scf.while": regions.while_loop,
    "gpu.barrier": _nothing,
    "ttg.barrier": _nothing,
    "ttg.local_barrier": _nothing,
    "llvm.intr.assume": _nothing,
}


def lower(ttir: str) -> Source:
    """Translate the text of a TTIR module.

    Raises:
        LoweringError: The kernel contains an operation that has no translation; names it and its line.
    """
    name = "the kernel"
    try:
        function = parse(ttir)
        name = function.name
        simplify_inductions(function)
        emitter = _run(function, heap=False)
        if emitter.array_bytes > STACK_BYTES:
            emitter = _run(function, heap=True)
        if emitter.array_bytes > MEMORY_BYTES:
            size = emitter.array_bytes >> 20
            raise LoweringError(f"one program needs {size} MiB of temporary memory; use smaller blocks")
    except LoweringError as error:
        raise LoweringError(f"Triton kernel {name} cannot run on this device: {error}") from None
    text = _text(function, emitter)
    return Source(c_name(name), text, uses_special(text), _reports(emitter), emitter.array_bytes)


def _run(function: Function, heap: bool) -> Emitter:
    emitter = Emitter(function, HANDLERS, heap)
    for number, value in enumerate(function.arguments):
        element = value.type.element
        emitter.scalars[value] = dtypes.load(element, f"&a{number}") if element in dtypes.NARROW else f"a{number}"
    regions.run_blocks(emitter, function.blocks)
    return emitter


def c_name(name: str) -> str:
    """A kernel's name as a C identifier."""
    return "".join(c if c.isalnum() else "_" for c in name)


def _text(function: Function, emitter: Emitter) -> str:
    arguments = []
    for number, value in enumerate(function.arguments):
        word = dtypes.memory(value.type.element)
        arguments.append(f"{word} a{number} = *({word}*)args[{number}];")
    for number in range(3):
        arguments.append(f"const hp_i32 grid{number} = (hp_i32)*(hp_i64*)args[{len(arguments)}];")
    if _reports(emitter):
        arguments.append(f"hp_i64* const fault = *(hp_i64**)args[{len(arguments)}];")
        arguments.append(f"const hp_i64 code = *(hp_i64*)args[{len(arguments)}];")
    workspace = [f"HP_WORKSPACE({emitter.array_bytes})"] if emitter.heap else []
    lines = [
        f"void {c_name(function.name)}(void* const* args, const hp_u32 groups[3], hp_u64 first, hp_u64 last) {{",
        *arguments,
        *workspace,
        "for (hp_u64 group = first; group < last; ++group) {",
        "const hp_i32 program0 = (hp_i32)(group % grid0), program1 = (hp_i32)(group / grid0 % grid1),",
        "  program2 = (hp_i32)(group / grid0 / grid1);",
        *emitter.lines,
        "next_program:;",
        "}",
        *(["HP_WORKSPACE_END"] if emitter.heap else []),
        "}",
    ]
    return support() + "\n".join(lines) + "\n"


def _reports(emitter: Emitter) -> bool:
    """Whether the kernel contains assertions."""
    return any("HP_ASSERT_FAILED" in line for line in emitter.lines)


def support() -> str:
    """The macros and functions that generated kernels use, beside those of all portable kernels."""
    return (Path(__file__).parent / "support.h").read_text()
