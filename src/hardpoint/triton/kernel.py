"""TTIR to C: one program of a Triton kernel is one group of a kernel in a dialect of the portable kernels."""

from __future__ import annotations

import re

from hardpoint.triton import calls, debug_ops, dtypes, entry, memory_ops, reductions, regions, scaled_dot
from hardpoint.triton.emitter import Emitter, Handler
from hardpoint.triton.entry import Source
from hardpoint.triton.induction import simplify_inductions
from hardpoint.triton.ir import Function, LoweringError, Op
from hardpoint.triton.parser import parse
from hardpoint.triton.target import Target

#: Larger arrays are on the heap: threads of a device may have small stacks.
STACK_BYTES = 256 << 10
#: A kernel that needs more temporary memory for one program is refused.
MEMORY_BYTES = 256 << 20


def _program_id(emitter: Emitter, op: Op) -> None:
    emitter.scalars[op.result] = f"program{'xyz'.index(op.keyword())}"


def _num_programs(emitter: Emitter, op: Op) -> None:
    emitter.scalars[op.result] = f"grid{'xyz'.index(op.keyword())}"


def _unsplat(emitter: Emitter, op: Op) -> None:
    array = emitter.materialize(op.operands[0])
    emitter.scalars[op.result] = emitter.first_element(array, op.result.type)


def _nothing(emitter: Emitter, op: Op) -> None:
    """Emit nothing: barriers are placed where they are needed, and assumptions are not used."""


def _inline_assembly(emitter: Emitter, op: Op) -> None:
    raise op.unsupported("inline assembly is written for one kind of hardware; use tl or libdevice functions instead")


HANDLERS: dict[str, Handler] = {
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _num_programs,
    "tt.unsplat": _unsplat,
    "tt.return": regions.return_,
    calls.CALL: regions.call,
    calls.LEAVE: regions.leave,
    "tt.volatile_load": memory_ops.volatile_load,
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


def lower(ttir: str, target: Target | None = None) -> Source:
    """Translate the text of a TTIR module.

    Raises:
        LoweringError: The kernel contains an operation without a translation. The message names it and its line.
    """
    target = target or Target()
    found = re.search(r"tt\.func public @(\w+)", ttir)
    name = found[1] if found else "the kernel"
    try:
        function = parse(ttir)
        name = function.name
        simplify_inductions(function)
        emitter = _run(function, target, heap=False)
        if emitter.array_bytes > STACK_BYTES and not target.spreads:
            emitter = _run(function, target, heap=True)
        if emitter.array_bytes > MEMORY_BYTES:
            size = emitter.array_bytes >> 20
            raise LoweringError(f"one program needs {size} MiB of temporary memory; use smaller blocks")
    except LoweringError as error:
        raise LoweringError(f"Triton kernel {name} cannot run on this device: {error}") from None
    except RecursionError:
        raise LoweringError(
            f"Triton kernel {name} cannot run on this device: its chains of operations are too long; use smaller blocks"
        ) from None
    return entry.source(function, emitter)


def _run(function: Function, target: Target, heap: bool) -> Emitter:
    emitter = Emitter(function, HANDLERS, target, heap)
    for number, value in enumerate(function.arguments):
        element = value.type.element
        emitter.scalars[value] = dtypes.load(element, f"&a{number}") if element in dtypes.NARROW else f"a{number}"
    regions.run_blocks(emitter, function.blocks)
    return emitter
