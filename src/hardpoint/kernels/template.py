"""Specializes hand-written portable kernels: prepends definitions to ``sources/FAMILY.c`` and selects one kernel.

A kernel is written ``HP_KERNEL(name)(parameters) { ... }`` and ends with a closing brace in column 1. It may use:

- per type parameter ``T``: ``T`` (storage type), ``T_c`` (compute type), ``T_a`` (accumulator type), ``T_get`` and
  ``T_put`` (storage to compute type and back), ``T_M(exp)`` (a math.h function), ``T_LOWEST``, ``T_HIGHEST``,
  ``T_IS_FLOAT``; for a complex type also ``T_part`` and ``T_P(exp)``, its component type and that type's functions;
- integer parameters, which are plain macros;
- ``HP_LSIZE``, the work-items per work-group, ``hp_group`` and ``hp_lid``, the work-group and local ids;
- with an integer ``SLOTS``: a parameter ``T* q_[SLOTS]``, which expands to ``q_0``, ``q_1``, ..., and
  ``HP_EACH_SLOT(X)``, which expands to ``X(0) X(1) ...``.
"""

from __future__ import annotations

import re

from hardpoint.kernels.pointwise import COMPUTE, ELEMENTS_CPU, ELEMENTS_GPU, FLOATS, PARTS, STORAGE, cpu_head, gpu_head
from hardpoint.ops import Reduction

HEAD = re.compile(r"^HP_KERNEL\((\w+)\)\(([^)]*)\)\s*\{\n", re.M)
SLOTTED = re.compile(r"(HP_GLOBAL [\w ]+\* \w+_)\[SLOTS\]")

#: Elements per work-item, for families and kernels in which a work-item handles several vectors.
ELEMENTS_PER_ITEM = {"copy": 8, "foreach": 16, "random:fill": 16, "random:dropout": 16}

#: Dtypes that kernels convert (``copy``), but do not compute with, and their C type in memory.
CONVERTED = {"u16": "hp_u16", "u32": "hp_u32", "u64": "hp_u64"} | dict.fromkeys(
    ("f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz"), "hp_u8"
)

LIMITS = {
    "f32": ("(-HP_INFINITY)", "HP_INFINITY"),
    "f64": ("(-HP_INFINITY)", "HP_INFINITY"),
    "i8": ("(-128)", "127"),
    "i16": ("(-32768)", "32767"),
    "i32": ("(-2147483647 - 1)", "2147483647"),
    "i64": ("(-9223372036854775807LL - 1)", "9223372036854775807LL"),
    "u8": ("0", "255"),
    "bool": ("0", "1"),
}


def source(
    family: str, text: str, kernel: str, description: str, dialect: str, group_size: int
) -> tuple[str, str, int]:
    """Return the specialized kernel without the preamble, its entry name and the elements per work-group."""
    per_item = ELEMENTS_PER_ITEM.get(f"{family}:{kernel}", ELEMENTS_PER_ITEM.get(family, ELEMENTS_GPU))
    elements = ELEMENTS_CPU if group_size == 1 else per_item * group_size
    head = f"#define HP_LSIZE {group_size}\n#define HP_ELEMENTS {elements}\n"
    for entry in description.split():
        name, value = entry.split("=")
        if value in CONVERTED:
            head += converted_definitions(name, value)
        else:
            head += type_definitions(name, value) if value in STORAGE else f"#define {name} {value}\n"
        if name == "SLOTS":
            head += f"#define HP_EACH_SLOT(X) {' '.join(f'X({k})' for k in range(int(value)))}\n"
            text = _expand_slots(text, int(value))
    entry = f"hp_{family}_{kernel}"
    return head + _select(text, kernel, entry, dialect, group_size), entry, elements


def _expand_slots(text: str, slots: int) -> str:
    return SLOTTED.sub(lambda found: ", ".join(f"{found[1]}{k}" for k in range(slots)), text)


def type_definitions(name: str, dtype: str) -> str:
    """Return the definitions of one type parameter."""
    if dtype in PARTS:
        return (
            f"typedef {STORAGE[dtype]} {name}, {name}_c, {name}_a;\n"
            f"typedef {STORAGE[PARTS[dtype]]} {name}_part;\n"
            f"#define {name}_get(v) (v)\n"
            f"#define {name}_put(v) (v)\n"
            f"#define {name}_M(name) hp_##name##_{dtype}\n"
            f"#define {name}_P(name) hp_##name##_{PARTS[dtype]}\n"
            f"#define {name}_IS_FLOAT 0\n"
            f"#define {name}_IS_COMPLEX 1\n"
            f"#define {name}_IS_{dtype.upper()} 1\n"
        )
    real = {"f16": "f32", "bf16": "f32"}.get(dtype, dtype)
    get, put = "(v)", f"(({STORAGE[dtype]})(v))"
    if dtype in ("f16", "bf16"):
        get, put = f"hp_load_{dtype}(v)", f"hp_store_{dtype}((float)(v))"
    elif dtype == "bool":
        get, put = "((hp_u8)((v) != 0))", "((hp_u8)((v) != 0))"
    total = COMPUTE[dtype] if dtype in FLOATS else "hp_i64"
    return (
        f"typedef {STORAGE[dtype]} {name};\n"
        f"typedef {COMPUTE[dtype]} {name}_c;\n"
        f"typedef {total} {name}_a;\n"
        f"#define {name}_get(v) {get}\n"
        f"#define {name}_put(v) {put}\n"
        f"#define {name}_M(name) hp_##name##_{'u8' if dtype == 'bool' else real}\n"
        f"#define {name}_LOWEST (({name}_c){LIMITS[real][0]})\n"
        f"#define {name}_HIGHEST (({name}_c){LIMITS[real][1]})\n"
        f"#define {name}_IS_FLOAT {int(dtype in FLOATS)}\n"
        f"#define {name}_IS_{dtype.upper()} 1\n"
    )


def converted_definitions(name: str, dtype: str) -> str:
    """Return the definitions of a type parameter that is only converted."""
    small_float = dtype.startswith("f8")
    get, put = (f"hp_load_{dtype}(v)", f"hp_store_{dtype}((float)(v))") if small_float else ("(v)", "((hp_u64)(v))")
    return (
        f"typedef {CONVERTED[dtype]} {name};\n"
        f"typedef {'float' if small_float else CONVERTED[dtype]} {name}_c;\n"
        f"#define {name}_get(v) {get}\n"
        f"#define {name}_put(v) {put}\n"
        f"#define {name}_IS_FLOAT {int(small_float)}\n"
        f"#define {name}_IS_{'FLOAT8' if small_float else 'UNSIGNED'} 1\n"
        f"#define {name}_IS_{dtype.upper()} 1\n"
    )


def rule_definitions(rule: Reduction) -> str:
    """Return the macros of a reduction rule."""
    return (
        # Not "M(name) A_M(name)": a name that is also a library macro would be expanded first.
        "#define M A_M\n"
        f"#define INITIAL ((A)({rule.initial}))\n"
        f"#define MAP ({rule.map})\n"
        f"#define COMBINE ({rule.combine})\n"
        f"#define FINISH ({rule.finish})\n" + ("#define MAP_IS_IDENTITY 1\n" if rule.map == "x" else "")
    )


def _select(text: str, kernel: str, entry: str, dialect: str, group_size: int) -> str:
    """Return the file with this kernel in the dialect's form, without the other kernels: their types are undefined."""
    result, position = "", 0
    for found in HEAD.finditer(text):
        end = text.index("\n}\n", found.start()) + 3
        result += text[position : found.start()]
        if found[1] == kernel:
            result += _function(found[2], text[found.end() : end], entry, dialect, group_size)
        position = end
    return result + text[position:]


def _function(parameters: str, body: str, entry: str, dialect: str, group_size: int) -> str:
    if dialect != "c":
        return gpu_head(dialect, entry, parameters, group_size) + body
    split = [re.fullmatch(r"(.*?)(\w+)", " ".join(p.split())) for p in parameters.split(",")]
    names = [(found[1].strip(), found[2]) for found in split if found]
    passed = ", ".join(name for _, name in names)
    return (
        f"HP_FN void {entry}_group(const hp_i64 hp_group, {parameters}) {{\n{body}\n"
        f"{cpu_head(entry, names)}"
        f"  for (hp_u64 group = first; group < last; ++group) {entry}_group((hp_i64)group, {passed});\n"
        "}\n"
    )
