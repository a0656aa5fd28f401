"""Kernels written by hand in the portable dialect: one C file a family, specialised by definitions in front of it.

A kernel reads ``HP_KERNEL(name)(parameters) { ... }`` and ends with a closing brace in the first column. For each type
parameter ``T`` it finds the type in memory ``T``, the type to compute in ``T_c``, the type to add up in ``T_a``,
``T_get`` and ``T_put`` between the first two, ``T_M(exp)`` for functions of math.h, ``T_LOWEST`` and ``T_HIGHEST``, and
``T_IS_FLOAT``; of a complex type, ``T_part`` and ``T_P(exp)`` are the type of its parts and functions of that. Integers
are plain definitions. ``HP_LSIZE`` is the number of work-items in a group, ``hp_group`` and ``hp_lid`` say where the
work-item is. Of a kernel with an integer ``SLOTS``, a parameter ``T* q_[SLOTS]`` stands for as many, ``q_0``,
``q_1``, ..., and ``HP_EACH_SLOT(X)`` for ``X(0) X(1) ...``.
"""

from __future__ import annotations

import re

from hardpoint.kernels.pointwise import COMPUTE, ELEMENTS_CPU, ELEMENTS_GPU, FLOATS, PARTS, STORAGE
from hardpoint.ops import Reduction

HEAD = re.compile(r"^HP_KERNEL\((\w+)\)\(([^)]*)\)\s*\{\n", re.M)
SLOTTED = re.compile(r"(HP_GLOBAL [\w ]+\* \w+_)\[SLOTS\]")

#: Elements for each work-item of a group, in families and kernels whose work-items take several vectors.
EACH = {"copy": 8, "foreach": 16, "random:fill": 16, "random:dropout": 16}

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
    """The specialised kernel without the preamble, the name of its entry, and the elements a group handles."""
    each = EACH.get(f"{family}:{kernel}", EACH.get(family, ELEMENTS_GPU))
    elements = ELEMENTS_CPU if group_size == 1 else each * group_size
    head = f"#define HP_LSIZE {group_size}\n#define HP_ELEMENTS {elements}\n"
    for entry in description.split():
        name, value = entry.split("=")
        head += type_definitions(name, value) if value in STORAGE else f"#define {name} {value}\n"
        if name == "SLOTS":
            head += f"#define HP_EACH_SLOT(X) {' '.join(f'X({k})' for k in range(int(value)))}\n"
            text = _spread(text, int(value))
    entry = f"hp_{family}_{kernel}"
    return head + _select(text, kernel, entry, dialect, group_size), entry, elements


def _spread(text: str, slots: int) -> str:
    return SLOTTED.sub(lambda found: ", ".join(f"{found[1]}{k}" for k in range(slots)), text)


def type_definitions(name: str, dtype: str) -> str:
    """What a kernel may use for one type parameter; of a complex type, its functions and the type of its parts."""
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


def rule_definitions(rule: Reduction) -> str:
    """What a reduction's kernel finds of its rule."""
    return (
        # Not M(name) A_M(name): a library may have macros of such names, and would put its own in place of them.
        "#define M A_M\n"
        f"#define INITIAL ((A)({rule.initial}))\n"
        f"#define MAP ({rule.map})\n"
        f"#define COMBINE ({rule.combine})\n"
        f"#define FINISH ({rule.finish})\n" + ("#define MAP_IS_IDENTITY 1\n" if rule.map == "x" else "")
    )


def _select(text: str, kernel: str, entry: str, dialect: str, group_size: int) -> str:
    """The file with this kernel in the form of the dialect, and without the others, whose types are not defined."""
    result, position = "", 0
    for found in HEAD.finditer(text):
        end = text.index("\n}\n", found.start()) + 3
        result += text[position : found.start()]
        if found[1] == kernel:
            result += _function(found[2], text[found.end() : end], entry, dialect, group_size)
        position = end
    return result + text[position:]


def _function(parameters: str, body: str, entry: str, dialect: str, group_size: int) -> str:
    if dialect == "opencl":
        return (
            f"__kernel __attribute__((reqd_work_group_size({group_size}, 1, 1))) void {entry}({parameters}) {{\n{body}"
        )
    if dialect == "cuda":
        return f'extern "C" __global__ void __launch_bounds__({group_size}) {entry}({parameters}) {{\n{body}'
    split = [re.fullmatch(r"(.*?)(\w+)", " ".join(p.split())) for p in parameters.split(",")]
    names = [(found[1].strip(), found[2]) for found in split if found]
    unpack = "".join(f"  {kind} const {name} = *({kind} const*)args[{k}];\n" for k, (kind, name) in enumerate(names))
    passed = ", ".join(name for _, name in names)
    return (
        f"HP_FN void {entry}_group(const hp_i64 hp_group, {parameters}) {{\n{body}\n"
        f"void {entry}(void* const* args, const hp_u32* groups, hp_u64 first, hp_u64 last) {{\n"
        "  (void)groups;\n"
        f"{unpack}"
        f"  for (hp_u64 group = first; group < last; ++group) {entry}_group((hp_i64)group, {passed});\n"
        "}\n"
    )
