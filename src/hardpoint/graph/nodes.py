"""Queries on FX nodes that several passes share."""

from __future__ import annotations

from typing import Any

import torch


def arguments(node: Any) -> dict[str, Any]:
    """Arguments of an operator's node by schema name, including defaults."""
    given = {}
    for position, argument in enumerate(node.target._schema.arguments):
        if position < len(node.args):
            given[argument.name] = node.args[position]
        else:
            given[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return given


def results(node: Any) -> list[Any]:
    """Example values of a node's results."""
    value = node.meta.get("val")
    return list(value) if isinstance(value, (list, tuple)) else [value]


def is_mutation(node: Any) -> bool:
    """Whether the node writes to its arguments."""
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target._schema.is_mutable)


def device_name() -> str:
    """Name of the mounted device."""
    return str(torch._C._get_privateuse1_backend_name())
