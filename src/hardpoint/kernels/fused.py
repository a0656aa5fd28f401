"""Generates one portable kernel for a region of pointwise operators, from the same expressions as single operators."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from hardpoint import ops
from hardpoint.kernels import pointwise
from hardpoint.kernels.pointwise import COMPUTE, FLOATS, PARTS, Operand, Specialization

#: Returns the lvalue of operand k's current element.
ElementAccess = Callable[[Operand, int], str]

#: Name of the step that only converts the dtype.
CONVERT = "convert"


@dataclass(frozen=True)
class Step:
    """One operator of a region.

    Inputs and attributes name values: ``i0`` is a region input, ``s0`` the result of a step, ``n0`` a number passed at
    launch, ``=0.5`` a literal compiled into the kernel.
    """

    op: str
    variant: int
    #: Compute dtype and result dtype.
    compute: str
    result: str
    inputs: tuple[str, ...]
    attributes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Region:
    """Operators over one iteration space. Outputs have its shape; inputs broadcast to it."""

    inputs: tuple[str, ...]  #: dtypes
    numbers: tuple[bool, ...]  #: whether each is an integer
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]  #: steps whose results are stored

    def text(self) -> str:
        """Serialize the region; the text identifies the kernel."""
        steps = [[s.op, s.variant, s.compute, s.result, s.inputs, s.attributes] for s in self.steps]
        return json.dumps([self.inputs, self.numbers, steps, self.outputs], separators=(",", ":"))

    @staticmethod
    def parse(text: str) -> Region:
        """Parse the result of :meth:`text`."""
        inputs, numbers, steps, outputs = json.loads(text)
        made = (Step(op, variant, compute, result, tuple(i), tuple(a)) for op, variant, compute, result, i, a in steps)
        return Region(tuple(inputs), tuple(numbers), tuple(made), tuple(outputs))


def expression(op: str, variant: int, compute: str) -> str | None:
    """Return an operator's expression for a compute dtype, or None. Complex dtypes are not fused."""
    if compute in PARTS:
        return None
    if op == CONVERT:
        return "self"
    return pointwise.expression(ops.find(op), Specialization(compute, 1, variant, 1, ()))


def source(description: str, dialect: str, group_size: int, preamble: str) -> tuple[str, str, int] | None:
    """Return the kernel's source, entry name and elements per work-group; None if a step has no expression.

    The description is ``dimensions=1 layout=contiguous,... region=...``, with the layout of outputs, then inputs.
    """
    dimensions, layout, text = (part.partition("=")[2] for part in description.split(" ", 2))
    region = Region.parse(text)
    dtypes = [region.steps[k].result for k in region.outputs] + list(region.inputs)
    operands = tuple(Operand(*pair) for pair in zip(dtypes, layout.split(","), strict=True))
    spec = Specialization("", len(region.outputs), 0, int(dimensions), operands)
    values = _values(region, operands, pointwise.element)
    if values is None:
        return None
    parameters = [("HP_GLOBAL char*", f"p{k}") for k in range(len(operands))]
    parameters += [("hp_i64" if whole else "double", f"n{k}") for k, whole in enumerate(region.numbers)]
    parameters.append(("hp_geometry", "g"))
    head = (
        f"{preamble}\n"
        f"#define HP_DIMENSIONS {spec.dimensions}\n"
        f"typedef struct {{ hp_i64 elements, shape[{spec.dimensions}], "
        f"strides[{len(operands)}][{spec.dimensions}]; }} hp_geometry;\n"
    )
    pointers = list(range(len(operands)))
    code = pointwise.loop(spec, pointers, values, _results(region, operands, pointwise.element), group_size)
    pack = pointwise.pack_of(spec) if group_size > 1 else 0
    turns = pointwise.turns_of(spec, any(_calls(step) for step in region.steps))
    if pack:
        access = pointwise.packed_element
        element = f"{_values(region, operands, access)}{_results(region, operands, access)}"
        code = pointwise.packs(spec, pointers, pack, turns, element, code, group_size)
    per_group = pointwise.per_group(group_size, pack, turns)
    return head + pointwise.kernel(dialect, "hp_fused", parameters, code, per_group, group_size), "hp_fused", per_group


def _calls(step: Step) -> bool:
    """Whether a step calls a math.h function."""
    return "M(" in (expression(step.op, step.variant, step.compute) or "")


def _values(region: Region, operands: tuple[Operand, ...], access: ElementAccess) -> str | None:
    """Code that loads one element of every input and computes the steps; None if a step has no expression."""
    first = len(region.outputs)
    code = ""
    for k, dtype in enumerate(region.inputs):
        value = pointwise.real_value(dtype, access(operands[first + k], first + k))
        code += f"      const {COMPUTE[dtype]} i{k} = {value};\n"
    for k, step in enumerate(region.steps):
        taken = _step(region, k, step)
        if taken is None:
            return None
        code += taken
    return code


def _results(region: Region, operands: tuple[Operand, ...], access: ElementAccess) -> str:
    """Code that stores the element's results."""
    return "".join(
        f"      {access(operands[k], k)} = {pointwise.store(operands[k].dtype, f's{step}', operands[k].dtype)};\n"
        for k, step in enumerate(region.outputs)
    )


def _step(region: Region, number: int, step: Step) -> str | None:
    value = expression(step.op, step.variant, step.compute)
    if value is None:
        return None
    op = None if step.op == CONVERT else ops.find(step.op)
    names = ("self",) if op is None else (*op.inputs, *op.attributes)
    kind = COMPUTE[step.compute]
    function = {"f16": "f32", "bf16": "f32", "bool": "u8"}.get(step.compute, step.compute)
    value = re.sub(r"\bM\((\w+)\)", rf"hp_\1_{function}", value)
    value = re.sub(r"\bT\b", kind, value)
    code = f"      {COMPUTE[step.result]} s{number};\n      {{\n"
    for name, given in zip(names, (*step.inputs, *step.attributes), strict=True):
        code += f"        const {kind} {name} = {_given(region, given, step.compute)};\n"
    # C promotes small integers to int; the cast wraps the result back into the type.
    result = _converted(f"({kind})({value})", step.compute, step.result)
    if step.op == CONVERT and step.result in ("f16", "bf16"):
        # An explicit conversion must round; other steps pass 16-bit values on as float.
        result = f"hp_load_{step.result}(hp_store_{step.result}((float)({value})))"
    return code + f"        s{number} = {result};\n      }}\n"


def _given(region: Region, name: str, compute: str) -> str:
    """Return a region value converted to a step's compute dtype."""
    if name[0] == "=":
        number = name[1:]
        literal = number if compute in FLOATS else f"{int(float(number))}"
        return f"({COMPUTE[compute]})({literal})"
    if name[0] == "n":
        return _converted(name, "i64" if region.numbers[int(name[1:])] else "f64", compute)
    dtype = region.inputs[int(name[1:])] if name[0] == "i" else region.steps[int(name[1:])].result
    return _converted(name, dtype, compute)


def _converted(value: str, dtype: str, to: str) -> str:
    if to == "bool" and dtype != "bool":
        return f"(hp_u8)({value} != 0)"
    return value if COMPUTE[dtype] == COMPUTE[to] else f"({COMPUTE[to]}){value}"
