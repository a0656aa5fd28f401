"""Nodes of a graph as steps of pointwise kernels: by the tables of the standard operators."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hardpoint import ops
from hardpoint.kernels.fused import CONVERT, expression
from hardpoint.ops.torch_overloads import CONVERSIONS, IN_GRAPHS
from hardpoint.torch.decompositions import functional_overload

aten = torch.ops.aten

NAMES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "u8",
    torch.bool: "bool",
}


@dataclass(frozen=True)
class Part:
    """One step that a node is made of. Inputs are nodes, numbers, or earlier parts of the same node."""

    op: str
    variant: int
    compute: torch.dtype
    result: torch.dtype
    inputs: tuple[Any, ...]
    attributes: tuple[Any, ...] = ()


@functools.cache
def overloads() -> dict[Any, tuple[ops.Op, ops.Overload]]:
    """Functional ATen overloads that are one expression of the tables."""
    found: dict[Any, tuple[ops.Op, ops.Overload]] = {}
    for op in ops.all_ops():
        if op.kind != "pointwise" or not (op.expression or op.variants):
            continue
        for name, mapping in op.aten.items():
            packet, _, overload = name.partition(".")
            operator = getattr(getattr(aten, packet, None), overload or "default", None)
            if operator is not None and operator._schema.is_mutable:
                operator = functional_overload(packet, operator)
            if operator is not None and not mapping.sources:
                found.setdefault(operator, (op, mapping))
    return found


def parts_of(node: Any) -> tuple[Part, ...]:
    """The steps of a node, in order; none if it is no pointwise operator that kernels can be made of."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return ()
    value = node.meta["val"]
    if value.device.type != torch._C._get_privateuse1_backend_name() or value.dtype not in NAMES or value.dim() > 8:
        return ()
    for argument in node.all_input_nodes:
        given = argument.meta.get("val")
        if isinstance(given, torch.Tensor) and (given.device != value.device or given.dtype not in NAMES):
            return ()
    make = COMPOSED.get(node.target)
    try:
        made = make(node) if make is not None else _listed(node)
    except NotPointwise:
        return ()
    return made if all(expression(p.op, p.variant, NAMES[p.compute]) is not None for p in made) else ()


class NotPointwise(Exception):
    """This call of the operator has no expression."""


def _arguments(node: Any) -> dict[str, Any]:
    """The node's arguments by the schema's names, defaults included."""
    given = {}
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args):
            given[argument.name] = node.args[position]
        else:
            given[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return given


def _value(given: Any) -> Any:
    return given.meta["val"] if isinstance(given, torch.fx.Node) else given


def _is_operand(given: Any) -> bool:
    return isinstance(_value(given), (torch.Tensor, int, float, torch.SymInt, torch.SymFloat))


def _computed_in(result: torch.dtype, inputs: tuple[Any, ...]) -> torch.dtype:
    """A truth value says nothing about the numbers that it was found of; any other result has their common dtype."""
    if result != torch.bool:
        return result
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    values = [_value(given) for given in inputs]
    values = [1 if isinstance(v, torch.SymInt) else 1.0 if isinstance(v, torch.SymFloat) else v for v in values]
    _, common = elementwise_dtypes(*values, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    if common not in NAMES:
        raise NotPointwise
    return common


def _listed(node: Any) -> tuple[Part, ...]:
    found = overloads().get(node.target)
    if found is None:
        return ()
    op, mapping = found
    given = _arguments(node)
    if not all(name in given and _is_operand(given[name]) for name in op.inputs):
        return ()
    inputs = tuple(given[name] for name in op.inputs)
    variant = 0
    if mapping.chooser:
        chosen = given[mapping.chooser] or ""
        if chosen not in op.variants:
            return ()
        variant = list(op.variants).index(chosen)
    result = node.meta["val"].dtype
    attributes = tuple(_attribute(entry, given, result) for entry in mapping.attributes)
    return (Part(op.name, variant, _computed_in(result, inputs), result, inputs, attributes),)


#: What the adapter puts in place of an attribute that is absent, where it is a number for every floating-point dtype.
_ABSENT = {"lowest(self)": float("-inf"), "highest(self)": float("inf")}


def _attribute(entry: str | int, given: dict[str, Any], dtype: torch.dtype) -> Any:
    if isinstance(entry, int):
        return entry
    name, _, default = entry.partition("=")
    value = given[name]
    if value is None:
        if default in _ABSENT and dtype.is_floating_point:
            return _ABSENT[default]
        try:
            return float(default)
        except ValueError:
            raise NotPointwise from None
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, (int, float)) and not isinstance(_value(value), (torch.SymInt, torch.SymFloat)):
        raise NotPointwise
    return value


# ---- Operators that are made of others


def _same(op: str, names: tuple[str, ...], attributes: tuple[str, ...]) -> Callable[[Any], tuple[Part, ...]]:
    """An operator under another name, its arguments in this order."""

    def make(node: Any) -> tuple[Part, ...]:
        given = _arguments(node)
        inputs = tuple(given[name] for name in names)
        result = node.meta["val"].dtype
        if not all(map(_is_operand, inputs)):
            raise NotPointwise
        values = tuple(given[name] for name in attributes)
        return (Part(op, 0, _computed_in(result, inputs), result, inputs, values),)

    return make


def _converted(node: Any) -> tuple[Part, ...]:
    given = _arguments(node)
    source = _value(given["self"])
    if not isinstance(source, torch.Tensor) or source.device != node.meta["val"].device:
        raise NotPointwise
    dtype = node.meta["val"].dtype
    return (Part(CONVERT, 0, dtype, dtype, (given["self"],)),)


def _dropout_backward(node: Any) -> tuple[Part, ...]:
    given = _arguments(node)
    dtype = node.meta["val"].dtype
    if not dtype.is_floating_point or _value(given["grad_output"]).dtype != dtype:
        raise NotPointwise
    kept = Part("mul", 0, dtype, dtype, (given["mask"], given["scale"]))
    return kept, Part("mul", 0, dtype, dtype, (given["grad_output"], kept))


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


COMPOSED: dict[Any, Callable[[Any], tuple[Part, ...]]] = {
    **{_overload(name): _same(*mapping) for name, mapping in IN_GRAPHS.items()},
    **{_overload(name): _converted for name in CONVERSIONS},
    torch.ops.prims.convert_element_type.default: lambda node: (
        Part(CONVERT, 0, node.meta["val"].dtype, node.meta["val"].dtype, (node.args[0],)),
    ),
    aten.native_dropout_backward.default: _dropout_backward,
}
