"""The function around a kernel's body in each dialect: arguments, program ids, memory for tiles.

The kernel's arguments are followed by the three sizes of the grid (int64): a launch has one dimension, and the kernel
computes its program ids from the number of its group.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from hardpoint.kernels.pointwise import gpu_head
from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Function
from hardpoint.triton.libdevice import EXTRA, uses_special
from hardpoint.triton.reserved import is_reserved

PROGRAM_IDS = (
    "const hp_i32 program0 = (hp_i32)(group % grid0), program1 = (hp_i32)(group / grid0 % grid1),",
    "  program2 = (hp_i32)(group / grid0 / grid1);",
)


class Source(NamedTuple):
    """A kernel in C.

    Attributes:
        name: Of the function in C.
        kernel: Of the Triton kernel.
        special: Whether it calls functions of math_special.h.
        asserts: Whether it takes the fault record and the code of its operator.
        guarded: Numbers of the arguments whose memory it takes: for each, after these, an address and a size.
        addresses: Whether it takes a pointer, and the same address as a number: see ``_takes_addresses``.
        array_bytes: Memory for the tiles of one program.
        workspace: Bytes of device memory that each group needs, if that memory is neither local nor on the stack.
    """

    name: str
    kernel: str
    text: str
    special: bool
    asserts: bool
    addresses: bool
    guarded: list[int]
    array_bytes: int
    workspace: int


def source(function: Function, emitter: Emitter) -> Source:
    """The source of a kernel from its translated body."""
    asserts = bool(emitter.guarded) or any("HP_ASSERT_FAILED" in line for line in emitter.lines)
    make = _group_function if emitter.target.spreads else _host_function
    addresses = _takes_addresses(emitter)
    lines, workspace = make(function, emitter, asserts)
    body = "\n".join(lines) + "\n"
    text = support(emitter.target.spreads, EXTRA in body) + body
    guarded = sorted(emitter.guarded)
    special = uses_special(body)
    return Source(
        c_name(function.name), function.name, text, special, asserts, addresses, guarded, emitter.array_bytes, workspace
    )


def c_name(name: str) -> str:
    """A kernel's name as a C identifier that nothing else has."""
    name = "".join(c if c.isalnum() else "_" for c in name)
    return f"{name}_" if is_reserved(name) else name


def support(groups: bool, libdevice: bool = False) -> str:
    """The macros and functions that generated kernels use, beside those of all portable kernels."""
    files = ["support_group.h" if groups else "support_host.h", "support.h", *(["libdevice.h"] if libdevice else [])]
    return "".join((Path(__file__).parent / file).read_text() for file in files)


def _takes_addresses(emitter: Emitter) -> bool:
    """Whether the kernel turns numbers into pointers, or back.

    A device may give kernels other addresses than programs see. The launcher passes one address in both forms; their
    difference is that of all addresses.
    """
    return any("HP_TO_POINTER" in line or "HP_TO_NUMBER" in line for line in emitter.lines)


def _host_function(function: Function, emitter: Emitter, asserts: bool) -> tuple[list[str], int]:
    arguments = []
    for number, value in enumerate(function.arguments):
        word = dtypes.memory(value.type.element)
        arguments.append(f"{word} a{number} = *({word}*)args[{number}];")
    for number in range(3):
        arguments.append(f"const hp_i32 grid{number} = (hp_i32)*(hp_i64*)args[{len(arguments)}];")
    if asserts:
        arguments.append(f"hp_i64* const fault = *(hp_i64**)args[{len(arguments)}];")
        arguments.append(f"const hp_i64 code = *(hp_i64*)args[{len(arguments)}];")
    if _takes_addresses(emitter):
        at = len(arguments)
        arguments.append(f"const hp_i64 shift = *(hp_i64*)args[{at}] - *(hp_i64*)args[{at + 1}];")
    at = 3 + len(function.arguments) + 2 * asserts + 2 * _takes_addresses(emitter)
    for number in sorted(emitter.guarded):
        arguments.append(f"const char* const start{number} = *(const char**)args[{at}];")
        arguments.append(f"const hp_i64 extent{number} = *(hp_i64*)args[{at + 1}];")
        at += 2
    lines = [
        f"void {c_name(function.name)}(void* const* args, const hp_u32 groups[3], hp_u64 first, hp_u64 last) {{",
        *arguments,
        *([f"HP_WORKSPACE({emitter.array_bytes})"] if emitter.heap else []),
        "for (hp_u64 group = first; group < last; ++group) {",
        *PROGRAM_IDS,
        *emitter.lines,
        "next_program:;",
        "}",
        *(["HP_WORKSPACE_END"] if emitter.heap else []),
        "}",
    ]
    return lines, 0


def _group_function(function: Function, emitter: Emitter, asserts: bool) -> tuple[list[str], int]:
    """Tiles are in local memory, or, where that is too small, in device memory that as many groups share as run."""
    target, size = emitter.target, emitter.array_bytes
    parameters = [f"{dtypes.memory(value.type.element)} a{number}" for number, value in enumerate(function.arguments)]
    parameters += [f"const hp_i64 size{number}" for number in range(3)]
    if asserts:
        parameters += ["HP_GLOBAL hp_i64* fault", "const hp_i64 code"]
    addresses = _takes_addresses(emitter)
    if addresses:
        parameters += ["HP_GLOBAL char* anchor", "const hp_i64 anchor_number"]
    for number in sorted(emitter.guarded):
        parameters += [f"HP_GLOBAL const char* start{number}", f"const hp_i64 extent{number}"]
    in_local = size <= target.local_memory
    if not in_local:
        parameters.append("HP_GLOBAL hp_u64* memory")
    head = gpu_head(target.dialect, c_name(function.name), ", ".join(parameters), target.group_size)
    start = [
        f"#define HP_LSIZE {target.group_size}",
        f"#define HP_TILE {'HP_TILE_LOCAL' if in_local else 'HP_GLOBAL'}",
        f"#define HP_RETURN {'return' if in_local else 'goto next_program'}",
        head,
        *(f"const hp_i32 grid{number} = (hp_i32)size{number};" for number in range(3)),
        "const hp_i32 lid = (hp_i32)hp_lid;",
        *(["const hp_i64 shift = (hp_i64)anchor - anchor_number;"] if addresses else []),
    ]
    if in_local:
        tiles = [f"HP_LOCAL hp_u64 tiles[{size // 8}];", "char HP_TILE* const workspace = (char HP_TILE*)tiles;"]
        group = ["const hp_i64 group = hp_group;", *PROGRAM_IDS]
        return [*start, *(tiles if size else []), *group, *emitter.lines, "}"], 0
    lines = [
        *start,
        f"char HP_TILE* const workspace = (char HP_TILE*)(memory + hp_group * {size // 8});",
        "for (hp_i64 group = hp_group; group < size0 * size1 * size2; group += hp_group_count) {",
        *PROGRAM_IDS,
        *emitter.lines,
        "next_program:;",
        "hp_barrier();",
        "}}",
    ]
    return lines, size
