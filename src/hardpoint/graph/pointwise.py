"""Express graph nodes as pointwise steps, using the operator tables."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from hardpoint import ops
from hardpoint.graph import nodes
from hardpoint.kernels.fused import CONVERT, expression
from hardpoint.ops.torch_overloads import CONVERSIONS, POINTWISE_IN_GRAPHS
from hardpoint.torch.overloads import aten_overload, functional_overload

DTYPE_NAMES = {
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
class PointwiseStep:
    """One pointwise operator of a node. Inputs are nodes, numbers, or earlier steps of the same node."""

    op: str
    variant: int
    compute: torch.dtype
    result: torch.dtype
    inputs: tuple[Any, ...]
    attributes: tuple[Any, ...] = ()


@functools.cache
def overloads() -> dict[Any, tuple[ops.Op, ops.Overload]]:
    """Functional ATen overloads that are pointwise expressions in the tables."""
    found: dict[Any, tuple[ops.Op, ops.Overload]] = {}
    for op in ops.all_ops():
        if op.kind != "pointwise" or not (op.expression or op.variants):
            continue
        for name, mapping in op.aten.items():
            operator = aten_overload(name)
            if operator is not None and operator._schema.is_mutable:
                operator = functional_overload(operator)
            if operator is not None and not mapping.sources:
                found.setdefault(operator, (op, mapping))
    return found


def pointwise_steps(node: Any) -> tuple[PointwiseStep, ...]:
    """Steps of a node in order; empty if the node cannot be fused."""
    if node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
        return ()
    value = node.meta["val"]
    if value.device.type != nodes.device_name() or value.dtype not in DTYPE_NAMES or value.dim() > 8:
        return ()
    for argument in node.all_input_nodes:
        given = argument.meta.get("val")
        if isinstance(given, torch.Tensor) and (given.device != value.device or given.dtype not in DTYPE_NAMES):
            return ()
    make = COMPOSED.get(node.target)
    try:
        made = make(node) if make is not None else _listed(node)
    except NotPointwise:
        return ()
    return made if all(expression(p.op, p.variant, DTYPE_NAMES[p.compute]) is not None for p in made) else ()


class NotPointwise(Exception):
    """This call has no pointwise expression."""


def _value(given: Any) -> Any:
    return given.meta["val"] if isinstance(given, torch.fx.Node) else given


def _is_operand(given: Any) -> bool:
    return isinstance(_value(given), (torch.Tensor, int, float, torch.SymInt, torch.SymFloat))


def _computed_in(result: torch.dtype, inputs: tuple[Any, ...]) -> torch.dtype:
    """Compute dtype: the promoted input dtype for bool results, the result dtype otherwise."""
    if result != torch.bool:
        return result
    from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

    values = [_value(given) for given in inputs]
    values = [1 if isinstance(v, torch.SymInt) else 1.0 if isinstance(v, torch.SymFloat) else v for v in values]
    _, common = elementwise_dtypes(*values, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
    if common not in DTYPE_NAMES:
        raise NotPointwise
    return common


def _listed(node: Any) -> tuple[PointwiseStep, ...]:
    found = overloads().get(node.target)
    if found is None:
        return ()
    op, mapping = found
    given = nodes.arguments(node)
    if not all(name in given and _is_operand(given[name]) for name in op.inputs):
        return ()
    inputs = tuple(given[name] for name in op.inputs)
    variant = 0
    if mapping.variant_argument:
        chosen = given[mapping.variant_argument] or ""
        if chosen not in op.variants:
            return ()
        variant = list(op.variants).index(chosen)
    result = node.meta["val"].dtype
    attributes = tuple(_attribute(entry, given, result) for entry in mapping.attributes)
    return (PointwiseStep(op.name, variant, _computed_in(result, inputs), result, inputs, attributes),)


#: Defaults of optional attributes in the tables, as numbers for floating-point dtypes.
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


# ---- Operators expressed by others


def _same(op: str, names: tuple[str, ...], attributes: tuple[str, ...]) -> Callable[[Any], tuple[PointwiseStep, ...]]:
    """A standard operator under another ATen name, with its arguments in this order."""

    def make(node: Any) -> tuple[PointwiseStep, ...]:
        given = nodes.arguments(node)
        inputs = tuple(given[name] for name in names)
        result = node.meta["val"].dtype
        if not all(map(_is_operand, inputs)):
            raise NotPointwise
        values = tuple(given[name] for name in attributes)
        return (PointwiseStep(op, 0, _computed_in(result, inputs), result, inputs, values),)

    return make


def _converted(node: Any) -> tuple[PointwiseStep, ...]:
    given = next(iter(nodes.arguments(node).values()))
    source, result = _value(given), node.meta["val"]
    if not isinstance(source, torch.Tensor) or source.device != result.device:
        raise NotPointwise
    return (PointwiseStep(CONVERT, 0, result.dtype, result.dtype, (given,)),)


def _dropout_backward(node: Any) -> tuple[PointwiseStep, ...]:
    given = nodes.arguments(node)
    dtype = node.meta["val"].dtype
    if not dtype.is_floating_point or _value(given["grad_output"]).dtype != dtype:
        raise NotPointwise
    scaled = PointwiseStep("mul", 0, dtype, dtype, (given["mask"], given["scale"]))
    return scaled, PointwiseStep("mul", 0, dtype, dtype, (given["grad_output"], scaled))


COMPOSED: dict[Any, Callable[[Any], tuple[PointwiseStep, ...]]] = {
    **{aten_overload(name): _same(*mapping) for name, mapping in POINTWISE_IN_GRAPHS.items()},
    **{aten_overload(name): _converted for name in CONVERSIONS},
    torch.ops.prims.convert_element_type.default: _converted,
    torch.ops.aten.native_dropout_backward.default: _dropout_backward,
}
