"""Element types of TTIR in C. 8-bit and 16-bit floats are computed in float and rounded after every operation."""

from __future__ import annotations

#: C type in memory of types that have another type in registers.
NARROW = {
    **dict.fromkeys(("f16", "bf16"), "hp_u16"),
    **dict.fromkeys(("f8E5M2", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ"), "hp_u8"),
}
#: C type of a value in a register.
REGISTER = {"f32": "float", "f64": "double", "i1": "hp_i32", "index": "hp_i64", **dict.fromkeys(NARROW, "float")}
REGISTER |= {f"i{bits}": f"hp_i{bits}" for bits in (8, 16, 32, 64)}
#: Bytes of an element in memory and, where that differs, in a temporary array.
BYTES = {"f32": 4, "f64": 8, "i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "index": 8, **dict.fromkeys(NARROW, 4)}


def is_float(element: str) -> bool:
    """Whether the type is a floating-point type."""
    return element.startswith(("f", "bf"))


def register(element: str) -> str:
    """C type of a value in a register."""
    if element.startswith("*"):
        return f"HP_GLOBAL {memory(element[1:])}*"
    return REGISTER[element]


def memory(element: str) -> str:
    """C type of an element in device memory."""
    if element.startswith("*"):
        return f"HP_GLOBAL {memory(element[1:])}*"
    return "hp_u8" if element == "i1" else NARROW.get(element) or REGISTER[element]


def local(element: str) -> str:
    """C type of an element in a temporary array."""
    return "hp_u8" if element == "i1" else register(element)


def local_bytes(element: str) -> int:
    """Bytes of an element in a temporary array."""
    return 8 if element.startswith("*") else BYTES[element]


def unsigned(element: str) -> str:
    """The unsigned C type of an integer type's width."""
    return "hp_u8" if element == "i1" else "hp_u64" if element == "index" else f"hp_u{element[1:]}"


def suffix(element: str) -> str:
    """Suffix of the functions in math.h for a type."""
    return "f64" if element == "f64" else "f32"


def load(element: str, pointer: str) -> str:
    """The value behind a pointer."""
    return f"hp_load_{element}(*{pointer})" if element in NARROW else f"*{pointer}"


def encode(element: str, value: str) -> str:
    """A value as it is stored in memory."""
    return f"hp_store_{element}({value})" if element in NARROW else value


def rounded(element: str, value: str) -> str:
    """A float rounded to a narrow type."""
    return f"hp_load_{element}(hp_store_{element}({value}))" if element in NARROW else value


def literal(text: str, element: str) -> str:
    """A constant of TTIR in C."""
    if element == "i1":
        return "1" if text in ("true", "1", "-1") else "0"
    if not is_float(element):
        return f"(({REGISTER[element]}){text}{'l' if element in ('i64', 'index') else ''})"
    if text.startswith("0x"):
        if element in NARROW:
            return f"hp_load_{element}({text})"
        return f"hp_from_bits_{element}({text}u{'l' if element == 'f64' else ''})"
    return text if element == "f64" else f"{text}f"
