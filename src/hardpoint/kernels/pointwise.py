"""Generates portable pointwise kernels, specialized for dtypes and layout, in the device's dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardpoint.ops import Expression, Op

#: C type in memory (STORAGE) and in computations (COMPUTE), by dialect dtype.
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
#: Element size in memory.
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "u8": 1, "bool": 1} | {
    "c64": 8,
    "c128": 16,
}
FLOATS = ("f32", "f64", "f16", "bf16")
#: Complex dtype -> dtype of its real and imaginary parts.
PARTS = {"c64": "f32", "c128": "f64"}

MAX_OPERANDS, MAX_DIMENSIONS = 6, 8

#: Elements per work-group of one work-item (a CPU), and per work-item of larger groups. A CPU group is 16 KiB of
#: floats, which sim runs inline, without its worker thread.
ELEMENTS_CPU, ELEMENTS_GPU = 4096, 4


@dataclass(frozen=True)
class Operand:
    """An operand's dtype and its layout along the fastest dimension."""

    dtype: str
    inner: str  # "broadcast", "contiguous", "strided", or "number" for a scalar kernel argument


@dataclass(frozen=True)
class Specialization:
    """The kernel variant that the adapter requests."""

    compute: str
    outputs: int
    variant: int
    dimensions: int
    operands: tuple[Operand, ...]

    @staticmethod
    def parse(text: str) -> Specialization:
        """Parse ``compute=f32 outputs=1 variant=0 dimensions=1 operands=f32:contiguous,...``."""
        fields = dict(part.split("=", 1) for part in text.split())
        operands = tuple(Operand(*entry.split(":")) for entry in fields["operands"].split(","))
        return Specialization(
            fields["compute"], int(fields["outputs"]), int(fields["variant"]), int(fields["dimensions"]), operands
        )


def expression(op: Op, spec: Specialization) -> str | None:
    """Return the operator's expression for this variant and dtype class, or None."""
    chosen: Expression = op.expression
    if op.variants:
        variants = list(op.variants.values())
        if spec.variant >= len(variants):
            return None
        chosen = variants[spec.variant]
    if isinstance(chosen, Mapping):
        kinds = {**dict.fromkeys(FLOATS, "float"), **dict.fromkeys(PARTS, "complex"), "bool": "bool"}
        return chosen.get(spec.compute, chosen.get(kinds.get(spec.compute, "int")))
    # One expression serves all real dtypes, but M() functions exist for floating-point dtypes only.
    return chosen if spec.compute in FLOATS or ("M(" not in chosen and spec.compute not in PARTS) else None


def is_complex(spec: Specialization) -> bool:
    """Whether the kernel uses complex types."""
    return any(dtype in PARTS for dtype in (spec.compute, *(operand.dtype for operand in spec.operands)))


def load(operand: Operand, stored: str, compute: str) -> str:
    """Code that converts a stored element to the compute type."""
    if compute in PARTS:
        part = STORAGE[PARTS[compute]]
        if operand.dtype in PARTS:
            return stored if operand.dtype == compute else f"M(make)(({part})({stored}).re, ({part})({stored}).im)"
        return f"M(real)(({part}){real_value(operand.dtype, stored)})"
    value = real_value(operand.dtype, stored)
    return f"(T){value}" if compute != "bool" or operand.dtype == "bool" else f"(T)({value} != 0)"


def real_value(dtype: str, stored: str) -> str:
    """Code that converts a stored element to its dtype's COMPUTE type."""
    if dtype in ("f16", "bf16"):
        return f"hp_load_{dtype}({stored})"
    return f"({stored} != 0)" if dtype == "bool" else stored


def store(dtype: str, value: str, compute: str) -> str:
    """Code that converts a value to an output's storage type. A real output takes the real part of a complex value."""
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


def source(op: Op, spec: Specialization, dialect: str, group_size: int, preamble: str) -> tuple[str, str, int] | None:
    """Return the kernel's source, entry name and elements per work-group; None if the operator has no such kernel."""
    value = expression(op, spec)
    if value is None or len(spec.operands) != spec.outputs + len(op.inputs) or spec.outputs != 1:
        return None
    if spec.compute not in PARTS and any(operand.dtype in PARTS for operand in spec.operands[1:]):
        return None
    # C promotes small integers to int; the cast wraps the result back into the type.
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
    # Prefixed, since an input may have the name of a variable outside the loop.
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
    numbers = "".join(f"      const T {name} = given_{name};\n" for name, _ in given)
    elements = numbers + "".join(
        f"      const T {op.inputs[k - 1]} = "
        f"{f'b{k}[j - at]' if k in staged else load(operand, element(operand, k), spec.compute)};\n"
        for k, operand in enumerate(spec.operands)
        if k > 0 and operand.inner != "number"
    )
    pointers = [k for k, operand in enumerate(spec.operands) if operand.inner != "number"]
    write = f"b0[j - at] = (float)(T)({value})" if 0 in staged else f"{element(spec.operands[0], 0)} = {body}"
    named_result = f"      const T result = {value};\n" if spec.compute in PARTS else ""
    code = loop(spec, pointers, elements + named_result, f"      {write};\n", group_size)
    pack = pack_of(spec) if group_size > 1 else 0
    turns = turns_of(spec, "M(" in value)
    elements_each = per_group(group_size, pack, turns)
    if pack:
        inputs = numbers + "".join(
            f"      const T {name} = {load(operand, packed_element(operand, k), spec.compute)};\n"
            for k, (name, operand) in enumerate(zip(op.inputs, spec.operands[1:], strict=True), 1)
            if operand.inner != "number"
        )
        code = packs(spec, pointers, pack, turns, f"{inputs}{named_result}      v0.at[u] = {body};\n", code, group_size)
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
    """Elements per work-group: each work-item handles ``turns`` vectors of ``pack`` elements."""
    return ELEMENTS_CPU if group_size == 1 else max(pack * turns, ELEMENTS_GPU) * group_size


def loop(spec: Specialization, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """Loop of a work-group over its elements: ``elements`` loads one, ``body`` stores its results."""
    return (_runs if group_size == 1 else _items)(spec, pointers, elements, body, group_size)


def _number(name: str, compute: str) -> list[tuple[str, str]]:
    """Parameters of a scalar argument, in the widest type of its kind; a complex scalar takes two."""
    if compute in PARTS:
        return [("hp_number", name), ("hp_number", f"{name}_im")]
    return [("hp_number" if compute in FLOATS else "hp_i64", name)]


def _staged(spec: Specialization) -> list[int]:
    """float16 operands that are converted run by run through a float buffer."""
    if spec.compute not in ("f16", "bf16", "f32"):
        return []
    return [k for k, operand in enumerate(spec.operands) if operand.dtype == "f16" and operand.inner == "contiguous"]


def element(operand: Operand, k: int) -> str:
    """Lvalue of operand ``k``'s element at loop index ``j``."""
    kind = STORAGE[operand.dtype]
    if operand.inner == "contiguous":
        return f"((HP_GLOBAL {kind}*)q{k})[j]"
    if operand.inner == "broadcast":
        return f"*(HP_GLOBAL {kind}*)q{k}"
    return f"*(HP_GLOBAL {kind}*)(q{k} + j * stride_{k})"


def _runs(spec: Specialization, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """Loop for groups of one work-item: runs along the fastest dimension, which the compiler vectorizes."""
    strided = "".join(
        f"  const hp_i64 stride_{k} = g.strides[{k}][0];\n" for k in pointers if spec.operands[k].inner == "strided"
    )
    at_start = "".join(f"    HP_GLOBAL char* q{k} = p{k} + index[0] * g.strides[{k}][0];\n" for k in pointers)
    outer = "".join(f"      q{k} += index[d] * g.strides[{k}][d];\n" for k in pointers)
    loop = f"    HP_VECTORIZE\n    for (hp_i64 j = 0; j < run; ++j) {{\n{elements}{body}    }}\n"
    staged = _staged(spec)
    if staged:
        loop = (
            "    for (hp_i64 at = 0; at < run; at += HP_STAGE) {\n"
            "      const hp_i64 part = run - at < HP_STAGE ? run - at : HP_STAGE;\n"
            + "".join(f"      float b{k}[HP_STAGE];\n" for k in staged)
            + "".join(f"      hp_load_run_f16(b{k}, (const hp_u16*)q{k} + at, part);\n" for k in staged if k > 0)
            + f"      HP_VECTORIZE\n      for (hp_i64 j = at; j < at + part; ++j) {{\n{elements}{body}      }}\n"
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


def _items(spec: Specialization, pointers: list[int], elements: str, body: str, group_size: int) -> str:
    """Loop for larger groups: each work-item takes every group_size-th element."""
    first = "".join(f"    HP_GLOBAL char* q{k} = p{k};\n" for k in pointers)
    outer = "".join(f"      q{k} += index * g.strides[{k}][d];\n" for k in pointers)
    # The pointers include the offset along the fastest dimension, so the element code below uses j = 0.
    return (
        f"  for (hp_i64 i = begin + hp_lid; i < end; i += {group_size}) {{\n"
        "    hp_i64 rest = i;\n"
        f"{first}"
        "    for (int d = 0; d < HP_DIMENSIONS; ++d) {\n"
        "      const hp_i64 index = d == HP_DIMENSIONS - 1 ? rest : hp_next_coordinate(&rest, g.shape[d]);\n"
        f"{outer}"
        "    }\n"
        "    const hp_i64 j = 0;\n"
        + "".join(f"    const hp_i64 stride_{k} = 0;\n" for k in pointers if spec.operands[k].inner == "strided")
        + f"{elements}{body}"
        "  }\n"
    )


def pack_of(spec: Specialization) -> int:
    """Elements per vector if all operands are contiguous or broadcast, at most 16 bytes of each operand; else 0."""
    memory = [operand for operand in spec.operands if operand.inner != "number"]
    outputs = spec.operands[: spec.outputs]
    if any(o.inner != "contiguous" for o in outputs) or any(o.inner == "strided" for o in memory):
        return 0
    pack = 16 // max(BYTES[operand.dtype] for operand in memory if operand.inner == "contiguous")
    return min(pack, 8) if pack > 1 else 0


def packed_element(operand: Operand, k: int) -> str:
    """Lvalue of element ``u`` of operand ``k``'s vector."""
    return f"v{k}.at[u]" if operand.inner == "contiguous" else f"*(HP_GLOBAL {STORAGE[operand.dtype]}*)q{k}"


def turns_of(spec: Specialization, functions: bool) -> int:
    """Vectors that a work-item loads before computing: 2 if slow ``functions`` would leave memory idle."""
    return 2 if functions and len(spec.operands) <= 4 else 1


def packs(
    spec: Specialization, pointers: list[int], pack: int, turns: int, element: str, otherwise: str, group_size: int
) -> str:
    """Vector loop of a work-group; the last group and unaligned memory take the ``otherwise`` path.

    ``element`` is the code that computes element ``u`` of each vector.
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
    # In one dimension, strides are known at compile time.
    offsets = {k: f"i * {BYTES[spec.operands[k].dtype]}" for k in packed}
    if spec.dimensions > 1:
        advance = "".join(f"        q{k} += index * g.strides[{k}][d];\n" for k in pointers)
        first = (
            f"      hp_i64 rest = i;\n{first}"
            "      for (int d = 0; d < HP_DIMENSIONS; ++d) {\n"
            "        const hp_i64 index = d == HP_DIMENSIONS - 1 ? rest : hp_next_coordinate(&rest, g.shape[d]);\n"
            f"{advance}"
            "      }\n"
        )
    else:
        first += "".join(f"      q{k} += {distance};\n" for k, distance in offsets.items())
    inputs = [k for k in packed if k >= spec.outputs]
    declarations = "".join(f"      HP_GLOBAL char* at_{k}[{turns}];\n" for k in pointers)
    declarations += "".join(f"      pack_{k} read_{k}[{turns}];\n" for k in inputs)
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
        f"{declarations}"
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
    """Wrap the code, which handles elements begin to end, in a function of the dialect's form."""
    clamp = "  end = end < g.elements ? end : g.elements;\n"
    if dialect == "c":
        bounds = f"  hp_i64 begin = (hp_i64)first * {per_group}, end = (hp_i64)last * {per_group};\n"
        return f"{cpu_head(name, parameters)}{bounds}{clamp}{code}}}\n"
    declared = ", ".join(f"{kind} {p}" for kind, p in parameters)
    bounds = f"  hp_i64 begin = (hp_i64)hp_group * {per_group}, end = begin + {per_group};\n"
    return f"{gpu_head(dialect, name, declared, group_size)}{bounds}{clamp}{code}}}\n"


def cpu_head(name: str, parameters: list[tuple[str, str]]) -> str:
    """Start of a function in the dialect "c": its signature, and variables for its parameters."""
    unpack = "".join(f"  {kind} const {p} = *({kind} const*)args[{k}];\n" for k, (kind, p) in enumerate(parameters))
    signature = f"void {name}(void* const* args, const hp_u32* groups, hp_u64 first, hp_u64 last)"
    return f"{signature} {{\n  (void)groups;\n{unpack}"


def gpu_head(dialect: str, name: str, parameters: str, group_size: int) -> str:
    """Signature of a kernel in OpenCL or CUDA, and its opening brace."""
    if dialect == "opencl":
        return f"__kernel __attribute__((reqd_work_group_size({group_size}, 1, 1))) void {name}({parameters}) {{\n"
    return f'extern "C" __global__ void __launch_bounds__({group_size}) {name}({parameters}) {{\n'
