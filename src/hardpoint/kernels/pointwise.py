"""Writes portable pointwise kernels, specialised for dtypes and layout, in the dialect of the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardpoint.ops import Expression, Op

#: Storage type, and the type to compute in.
STORAGE = {
    "f32": "float",
    "f64": "double",
    "f16": "hp_u16",
    "bf16": "hp_u16",
    "i8": "hp_i8",
    "i16": "hp_i16",
    "i32": "hp_i32",
    "i64": "hp_i64",
    "u8": "hp_u8",
    "bool": "hp_u8",
    "c64": "hp_c64",
    "c128": "hp_c128",
}
COMPUTE = {**STORAGE, "f16": "float", "bf16": "float"}
#: Bytes of an element in memory.
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "bool": 1} | {
    "c64": 8,
    "c128": 16,
}
FLOATS = ("f32", "f64", "f16", "bf16")
#: Complex dtypes with the dtype of their parts.
PARTS = {"c64": "f32", "c128": "f64"}

MAX_OPERANDS, MAX_DIMENSIONS = 6, 8

#: Elements that one group handles where a group is one work-item (a CPU), and for each work-item elsewhere. A group is
#: at most 16 KiB of floats: what sim runs at once, without its worker.
ELEMENTS_CPU, ELEMENTS_GPU = 4096, 4


@dataclass(frozen=True)
class Operand:
    """An operand's dtype and how its elements follow each other in the fastest dimension."""

    dtype: str
    inner: str  # "broadcast", "contiguous", "strided", or "number" for a value that is passed along


@dataclass(frozen=True)
class Specialisation:
    """What the adapter asks for; parsed from its text."""

    compute: str
    outputs: int
    variant: int
    dimensions: int
    operands: tuple[Operand, ...]

    @staticmethod
    def parse(text: str) -> Specialisation:
        """Read ``compute=f32 outputs=1 variant=0 dimensions=1 operands=f32:contiguous,...``."""
        fields = dict(part.split("=", 1) for part in text.split())
        operands = tuple(Operand(*entry.split(":")) for entry in fields["operands"].split(","))
        return Specialisation(
            fields["compute"], int(fields["outputs"]), int(fields["variant"]), int(fields["dimensions"]), operands
        )


def expression(op: Op, spec: Specialisation) -> str | None:
    """The operator's expression for this variant and class of dtypes, or None."""
    chosen: Expression = op.expression
    if op.variants:
        variants = list(op.variants.values())
        if spec.variant >= len(variants):
            return None
        chosen = variants[spec.variant]
    if isinstance(chosen, Mapping):
        kinds = {**dict.fromkeys(FLOATS, "float"), **dict.fromkeys(PARTS, "complex"), "bool": "bool"}
        return chosen.get(spec.compute, chosen.get(kinds.get(spec.compute, "int")))
    # One expression for all real dtypes; functions of M exist for floating-point numbers only.
    return chosen if spec.compute in FLOATS or ("M(" not in chosen and spec.compute not in PARTS) else None


def is_complex(spec: Specialisation) -> bool:
    """Whether the kernel needs complex types."""
    return any(dtype in PARTS for dtype in (spec.compute, *(operand.dtype for operand in spec.operands)))


def load(operand: Operand, place: str, compute: str) -> str:
    """An operand's element in the computation's type."""
    if compute in PARTS:
        part = STORAGE[PARTS[compute]]
        if operand.dtype in PARTS:
            return place if operand.dtype == compute else f"M(make)(({part})({place}).re, ({part})({place}).im)"
        return f"M(real)(({part}){real_value(operand.dtype, place)})"
    value = real_value(operand.dtype, place)
    return f"(T){value}" if compute != "bool" or operand.dtype == "bool" else f"(T)({value} != 0)"


def real_value(dtype: str, place: str) -> str:
    """A stored element in the type that its dtype is computed in."""
    if dtype in ("f16", "bf16"):
        return f"hp_load_{dtype}({place})"
    return f"({place} != 0)" if dtype == "bool" else place


def store(dtype: str, value: str, compute: str) -> str:
    """A value in an output's storage type; of a complex number, a real output keeps the real part."""
    if dtype in PARTS:
        if compute not in PARTS:
            return f"hp_real_{dtype}(({STORAGE[PARTS[dtype]]})({value}))"
        part = STORAGE[PARTS[dtype]]
        return value if dtype == compute else f"hp_make_{dtype}(({part}){value}.re, ({part}){value}.im)"
    if compute in PARTS:
        value = f"M(truth)({value})" if dtype == "bool" else f"({value}).re"
    if dtype in ("f16", "bf16"):
        return f"hp_store_{dtype}((float)({value}))"
    if dtype == "bool":
        return f"(hp_u8)(({value}) != 0)"
    return f"({STORAGE[dtype]})({value})"


def source(op: Op, spec: Specialisation, dialect: str, group_size: int, preamble: str) -> tuple[str, str, int] | None:
    """The kernel's source, its name, and the elements a group handles; None if the operator has no such kernel."""
    value = expression(op, spec)
    if value is None or len(spec.operands) != spec.outputs + len(op.inputs) or spec.outputs != 1:
        return None
    if spec.compute not in PARTS and any(operand.dtype in PARTS for operand in spec.operands[1:]):
        return None
    # Promoted integer arithmetic would give numbers that do not fit the type; the cast brings them back.
    result = "result" if spec.compute in PARTS else f"(T)({value})"
    body = store(spec.operands[0].dtype, result, spec.compute)
    name = f"hp_{op.name}"
    names = [f"p{k}" for k in range(len(spec.operands))]
    parameters: list[tuple[str, str]] = []
    for k, operand in enumerate(spec.operands):
        pointer = operand.inner != "number"
        parameters += [("HP_GLOBAL char*", names[k])] if pointer else _number(names[k], spec.compute)
    for k in range(len(op.attributes)):
        parameters += _number(f"a{k}", spec.compute)
    parameters.append(("hp_geometry", "g"))

    given = [(name, f"a{k}") for k, name in enumerate(op.attributes)]
    given += [(op.inputs[k - 1], names[k]) for k, operand in enumerate(spec.operands) if operand.inner == "number"]
    part = STORAGE[PARTS[spec.compute]] if spec.compute in PARTS else ""
    # Read into a name of their own, since an input may be called as a variable around the loop is.
    constants = "".join(
        f"  const T given_{name} = "
        + (
            f"M(make)(({part})hp_number_value({value}), ({part})hp_number_value({value}_im))"
            if part
            else f"(T)hp_number_value({value})"
            if spec.compute in FLOATS
            else f"(T){value}"
        )
        + ";\n"
        for name, value in given
    )
    staged = _staged(spec) if group_size == 1 else []
    elements = "".join(f"      const T {name} = given_{name};\n" for name, _ in given)
    elements += "".join(
        f"      const T {op.inputs[k - 1]} = "
        f"{f'b{k}[j - at]' if k in staged else load(operand, place(operand, k), spec.compute)};\n"
        for k, operand in enumerate(spec.operands)
        if k > 0 and operand.inner != "number"
    )
    pointers = [k for k, operand in enumerate(spec.operands) if operand.inner != "number"]
    write = f"b0[j - at] = (float)(T)({value})" if 0 in staged else f"{place(spec.operands[0], 0)} = {body}"
    if spec.compute in PARTS:
        elements += f"      const T result = {value};\n"
    code = loop(spec, pointers, elements, f"      {write};\n", group_size)
    pack = pack_of(spec) if group_size > 1 else 0
    turns = turns_of(spec, "M(" in value)
    elements_each = per_group(group_size, pack, turns)
    if pack:
        inputs = "".join(f"      const T {name} = given_{name};\n" for name, _ in given)
        inputs += "".join(
            f"      const T {name} = {load(operand, packed_place(operand, k), spec.compute)};\n"
            for k, (name, operand) in enumerate(zip(op.inputs, spec.operands[1:], strict=True), 1)
            if operand.inner != "number"
        )
        inputs += f"      const T result = {value};\n" if spec.compute in PARTS else ""
        code = packs(spec, pointers, pack, turns, f"{inputs}      v0.at[u] = {body};\n", code, group_size)
    function = {"f16": "f32", "bf16": "f32", "bool": "u8"}.get(spec.compute, spec.compute)
    head = (
        f"{preamble}\n"
        f"#define HP_DIMENSIONS {spec.dimensions}\n"
        f"typedef {COMPUTE[spec.compute]} T;\n"
        f"#define M(name) hp_##name##_{function}\n"
        f"typedef struct {{ hp_i64 elements, shape[{MAX_DIMENSIONS}], "
        f"strides[{MAX_OPERANDS}][{MAX_DIMENSIONS}]; }} hp_geometry;\n"
    )
    return head + kernel(dialect, name, parameters, constants + code, elements_each, group_size), name, elements_each


def per_group(group_size: int, pack: int = 0, turns: int = 1) -> int:
    """The elements that one group handles; ``pack`` of them at once by each work-item, in that many ``turns``."""
    return ELEMENTS_CPU if group_size == 1 else max(pack * turns, ELEMENTS_GPU) * group_size


def loop(spec: Specialisation, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """The loop of a group over its elements: ``elements`` reads one, ``body`` stores its results."""
    return (_runs if group_size == 1 else _items)(spec, pointers, elements, body, group_size)


def _number(name: str, compute: str) -> list[tuple[str, str]]:
    """The parameters that pass a number, in the widest type of its kind: a complex one is two."""
    if compute in PARTS:
        return [("hp_number", name), ("hp_number", f"{name}_im")]
    return [("hp_number" if compute in FLOATS else "hp_i64", name)]


def _staged(spec: Specialisation) -> list[int]:
    """Operands that pass through a buffer of floats, so that a run of them is converted at once."""
    if spec.compute not in ("f16", "bf16", "f32"):
        return []
    return [k for k, operand in enumerate(spec.operands) if operand.dtype == "f16" and operand.inner == "contiguous"]


def place(operand: Operand, k: int) -> str:
    """Where operand ``k`` has the element that the loop is at."""
    kind = STORAGE[operand.dtype]
    if operand.inner == "contiguous":
        return f"((HP_GLOBAL {kind}*)q{k})[j]"
    if operand.inner == "broadcast":
        return f"*(HP_GLOBAL {kind}*)q{k}"
    return f"*(HP_GLOBAL {kind}*)(q{k} + j * stride_{k})"


def _runs(spec: Specialisation, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """For one work-item a group: along the fastest dimension in runs, which the compiler vectorises."""
    strided = "".join(
        f"  const hp_i64 stride_{k} = g.strides[{k}][0];\n" for k in pointers if spec.operands[k].inner == "strided"
    )
    at_start = "".join(f"    HP_GLOBAL char* q{k} = p{k} + index[0] * g.strides[{k}][0];\n" for k in pointers)
    outer = "".join(f"      q{k} += index[d] * g.strides[{k}][d];\n" for k in pointers)
    loop = f"    HP_VECTORISE\n    for (hp_i64 j = 0; j < run; ++j) {{\n{elements}{body}    }}\n"
    staged = _staged(spec)
    if staged:
        loop = (
            "    for (hp_i64 at = 0; at < run; at += HP_STAGE) {\n"
            "      const hp_i64 part = run - at < HP_STAGE ? run - at : HP_STAGE;\n"
            + "".join(f"      float b{k}[HP_STAGE];\n" for k in staged)
            + "".join(f"      hp_load_run_f16(b{k}, (const hp_u16*)q{k} + at, part);\n" for k in staged if k > 0)
            + f"      HP_VECTORISE\n      for (hp_i64 j = at; j < at + part; ++j) {{\n{elements}{body}      }}\n"
            + "".join(f"      hp_store_run_f16((hp_u16*)q{k} + at, b{k}, part);\n" for k in staged if k == 0)
            + "    }\n"
        )
    return (
        f"{strided}"
        "  hp_i64 index[HP_DIMENSIONS], rest = begin;\n"
        "  for (int d = 0; d < HP_DIMENSIONS; ++d) {\n"
        "    index[d] = d == HP_DIMENSIONS - 1 ? rest : rest % g.shape[d];\n"
        "    rest /= g.shape[d];\n"
        "  }\n"
        "  while (begin < end) {\n"
        "    hp_i64 run = g.shape[0] - index[0];\n"
        "    run = run < end - begin ? run : end - begin;\n"
        f"{at_start}"
        "    for (int d = 1; d < HP_DIMENSIONS; ++d) {\n"
        f"{outer}"
        "    }\n"
        f"{loop}"
        "    begin += run;\n"
        "    index[0] += run;\n"
        "    for (int d = 0; d + 1 < HP_DIMENSIONS && index[d] == g.shape[d]; ++d) {\n"
        "      index[d] = 0;\n"
        "      ++index[d + 1];\n"
        "    }\n"
        "  }\n"
    )


def _items(spec: Specialisation, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """For groups of many work-items: each takes every group_size-th element."""
    first = "".join(f"    HP_GLOBAL char* q{k} = p{k};\n" for k in pointers)
    outer = "".join(f"      q{k} += index * g.strides[{k}][d];\n" for k in pointers)
    # The fastest dimension is added here too, so the places below are those of element 0.
    return (
        f"  for (hp_i64 i = begin + hp_lid; i < end; i += {group_size}) {{\n"
        "    hp_i64 rest = i;\n"
        f"{first}"
        "    for (int d = 0; d < HP_DIMENSIONS; ++d) {\n"
        "      const hp_i64 index = d == HP_DIMENSIONS - 1 ? rest : hp_next_place(&rest, g.shape[d]);\n"
        f"{outer}"
        "    }\n"
        "    const hp_i64 j = 0;\n"
        + "".join(f"    const hp_i64 stride_{k} = 0;\n" for k in pointers if spec.operands[k].inner == "strided")
        + f"{elements}{body}"
        "  }\n"
    )


def pack_of(spec: Specialisation) -> int:
    """Elements that a work-item takes at once where all lie side by side, at most 16 bytes of each operand; or 0."""
    memory = [operand for operand in spec.operands if operand.inner != "number"]
    outputs = spec.operands[: spec.outputs]
    if any(o.inner != "contiguous" for o in outputs) or any(o.inner == "strided" for o in memory):
        return 0
    pack = 16 // max(BYTES[operand.dtype] for operand in memory if operand.inner == "contiguous")
    return min(pack, 8) if pack > 1 else 0


def packed_place(operand: Operand, k: int) -> str:
    """Where operand ``k`` has element ``u`` of the work-item's pack."""
    return f"v{k}.at[u]" if operand.inner == "contiguous" else f"*(HP_GLOBAL {STORAGE[operand.dtype]}*)q{k}"


def turns_of(spec: Specialisation, functions: bool) -> int:
    """Packs that a work-item reads before it computes: more where ``functions`` would leave memory waiting."""
    return 2 if functions and len(spec.operands) <= 4 else 1


def packs(
    spec: Specialisation, pointers: list[int], pack: int, turns: int, element: str, otherwise: str, group_size: int
) -> str:
    """Work-items read, compute and write vectors; the last group, and memory that is not aligned, go the other way.

    ``element`` computes element ``u`` of each.
    """
    packed = {k: STORAGE[spec.operands[k].dtype] for k in pointers if spec.operands[k].inner == "contiguous"}
    bytes_of = {k: pack * BYTES[spec.operands[k].dtype] for k in packed}
    types = "".join(
        f"  typedef struct __attribute__((aligned({bytes_of[k]}))) {{ {kind} at[{pack}]; }} pack_{k};\n"
        for k, kind in packed.items()
    )
    outer = range(1, spec.dimensions)
    fits = [f"(hp_u64)p{k} % {bytes_of[k]} == 0" for k in packed]
    fits += [f"g.strides[{k}][{d}] % {bytes_of[k]} == 0" for k in packed for d in outer]
    if spec.dimensions > 1:
        fits.append(f"g.shape[0] % {pack} == 0")  # no vector crosses the end of a row
    first = "".join(f"      HP_GLOBAL char* q{k} = p{k};\n" for k in pointers)
    # Along one dimension the strides are known.
    along = {k: f"i * {BYTES[spec.operands[k].dtype]}" for k in packed}
    if spec.dimensions > 1:
        moves = "".join(f"        q{k} += index * g.strides[{k}][d];\n" for k in pointers)
        first = (
            f"      hp_i64 rest = i;\n{first}"
            "      for (int d = 0; d < HP_DIMENSIONS; ++d) {\n"
            "        const hp_i64 index = d == HP_DIMENSIONS - 1 ? rest : hp_next_place(&rest, g.shape[d]);\n"
            f"{moves}"
            "      }\n"
        )
    else:
        first += "".join(f"      q{k} += {distance};\n" for k, distance in along.items())
    inputs = [k for k in packed if k >= spec.outputs]
    kept = "".join(f"      HP_GLOBAL char* at_{k}[{turns}];\n" for k in pointers)
    kept += "".join(f"      pack_{k} read_{k}[{turns}];\n" for k in inputs)
    reads = "".join(f"      at_{k}[turn] = q{k};\n" for k in pointers)
    reads += "".join(f"      read_{k}[turn] = *(HP_GLOBAL const pack_{k}*)q{k};\n" for k in inputs)
    given = "".join(f"      HP_GLOBAL char* const q{k} = at_{k}[turn];\n" for k in pointers)
    given += "".join(f"      const pack_{k} v{k} = read_{k}[turn];\n" for k in inputs)
    results = "".join(f"      pack_{k} v{k};\n" for k in range(spec.outputs))
    writes = "".join(f"      *(HP_GLOBAL pack_{k}*)q{k} = v{k};\n" for k in range(spec.outputs))
    each_turn = f"      HP_UNROLL\n      for (int turn = 0; turn < {turns}; ++turn) {{\n"
    return (
        f"{types}"
        f"  if (end - begin == {per_group(group_size, pack, turns)} && {' && '.join(fits)}) {{\n"
        f"    for (hp_i64 from = begin + hp_lid * {pack}; from < end; from += {pack * group_size * turns}) {{\n"
        f"{kept}"
        f"{each_turn}"
        f"      const hp_i64 i = from + turn * {pack * group_size};\n"
        f"{first}{reads}"
        "      }\n"
        f"{each_turn}"
        f"{given}{results}"
        f"      for (int u = 0; u < {pack}; ++u) {{\n{element}      }}\n"
        f"{writes}"
        "      }\n"
        "    }\n"
        "    return;\n"
        "  }\n"
        f"{otherwise}"
    )


def kernel(
    dialect: str, name: str, parameters: list[tuple[str, str]], code: str, per_group: int, group_size: int
) -> str:
    """The function around the code, in the dialect's own form. The code works on elements begin to end."""
    if dialect == "c":
        unpack = "".join(f"  {kind} const {p} = *({kind} const*)args[{k}];\n" for k, (kind, p) in enumerate(parameters))
        return (
            f"void {name}(void* const* args, const hp_u32* groups, hp_u64 first, hp_u64 last) {{\n"
            "  (void)groups;\n"
            f"{unpack}"
            f"  hp_i64 begin = (hp_i64)first * {per_group}, end = (hp_i64)last * {per_group};\n"
            "  end = end < g.elements ? end : g.elements;\n"
            f"{code}}}\n"
        )
    declared = ", ".join(f"{kind} {p}" for kind, p in parameters)
    head = (
        f"__kernel __attribute__((reqd_work_group_size({group_size}, 1, 1))) void {name}({declared})"
        if dialect == "opencl"
        else f'extern "C" __global__ void __launch_bounds__({group_size}) {name}({declared})'
    )
    return (
        f"{head} {{\n"
        f"  hp_i64 begin = (hp_i64)hp_group * {per_group}, end = begin + {per_group};\n"
        "  end = end < g.elements ? end : g.elements;\n"
        f"{code}}}\n"
    )
