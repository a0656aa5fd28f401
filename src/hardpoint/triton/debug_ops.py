"""``tl.device_print`` and ``tl.device_assert``."""

from __future__ import annotations

import json

from hardpoint.triton import dtypes
from hardpoint.triton.emitter import Emitter
from hardpoint.triton.ir import Op, Value
from hardpoint.triton.nest import Index


def print_(emitter: Emitter, op: Op) -> None:
    """One line for each element, as on NVIDIA: program, index, text, value."""
    prefix = _unescape(op.strings[0]).replace("%", "%%") if op.strings else ""
    hexadecimal = op.attributes.get("hex") == "true"
    signs = op.attributes.get("isSigned", "").partition(":")[2].strip(" >").split(",")
    if not op.operands:
        emitter.emit(_printf(f"pid (%d, %d, %d){prefix}\n", []))
    for number, operand in enumerate(op.operands):
        emitter.prepare(operand)
        nest, index = emitter.nest(operand.type.shape)
        value = emitter.value(operand, index, nest)
        signed = number >= len(signs) or signs[number].strip() != "0"
        length = "l" if emitter.target.dialect == "opencl" else "ll"
        form, argument = _format(operand, value, hexadecimal, signed, length)
        which = f"(operand {number}) " if len(op.operands) > 1 else ""
        nest.append(
            _printf(f"pid (%d, %d, %d) idx ({_places(index)}){prefix}{which}{form}\n", [*_texts(index), argument])
        )
        emitter.close(nest, vectorize=False)


def _places(index: tuple[Index, ...]) -> str:
    return ", ".join(["%d"] * len(index))


def _texts(index: tuple[Index, ...]) -> list[str]:
    return [at.text for at in index]


def _printf(text: str, arguments: list[str]) -> str:
    return f"hp_printf({json.dumps(text)}, {', '.join(['program0', 'program1', 'program2', *arguments])});"


def _format(operand: Value, value: str, hexadecimal: bool, signed: bool, length: str) -> tuple[str, str]:
    """``length``: the modifier of 64-bit integers."""
    element = operand.type.element
    if operand.type.is_pointer:
        return "%p", f"(HP_GLOBAL void*){value}"
    if dtypes.is_float(element):
        return "%f", f"(double){value}"
    if hexadecimal:
        digits = max(int(element[1:]) // 4, 1)
        return f"0x%0{digits}{length}x", f"(hp_u64)({dtypes.unsigned(element)}){value}"
    if signed:
        return f"%{length}d", f"(hp_i64){value}"
    return f"%{length}u", f"(hp_u64)({dtypes.unsigned(element)}){value}"


def assert_(emitter: Emitter, op: Op) -> None:
    """``tl.device_assert``: prints the first failure at once, raised at the next wait for the device."""
    operand = op.operands[0]
    emitter.prepare(operand)
    nest, index = emitter.nest(operand.type.shape)
    value = emitter.value(operand, index, nest)
    if operand.type.shape and not emitter.target.spreads:
        # First a loop that C can vectorize. Only if an element fails, a second loop reports it.
        flag = emitter.name("holds")
        emitter.emit(f"hp_i32 {flag} = 1;")
        nest.append(f"{flag} &= {value};")
        emitter.close(nest)
        emitter.emit(f"if (!{flag})")
        nest, index = emitter.nest(operand.type.shape)
        value = emitter.value(operand, index, nest, keep=False)
    line = op.location.rpartition(":")[2] or "0"
    message = _unescape(op.strings[0]) if op.strings else ""
    text = (
        f"{op.location}: {emitter.function.name}: pid (%d, %d, %d): Assertion `{message.replace('%', '%%')}` failed.\n"
    )
    arguments = ", ".join([json.dumps(text), "program0", "program1", "program2"])
    nest.append(f"if (!({value})) HP_ASSERT_FAILED({line}, {arguments})")
    emitter.close(nest, vectorize=False)


def _unescape(text: str) -> str:
    """Decode a string of MLIR, which writes special characters as two hexadecimal digits."""
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] == "\\":
            out.append("\\")
            at += 2
        elif text[at] == "\\":
            out.append(chr(int(text[at + 1 : at + 3], 16)))
            at += 3
        else:
            out.append(text[at])
            at += 1
    return "".join(out)
