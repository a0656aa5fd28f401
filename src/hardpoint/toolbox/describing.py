"""Calls of torch and their tensors, for JSON."""

from __future__ import annotations

import functools
from typing import Any

import torch

from hardpoint.ops import all_ops
from hardpoint.ops.torch_overloads import HIDDEN_WRITES


@functools.cache
def overload(name: str) -> Any:
    """torch's function for an operator's full name: ``aten::add.Tensor`` -> ``torch.ops.aten.add.Tensor``."""
    space, _, rest = name.partition("::")
    base, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), base), kind or "default")


@functools.cache
def _kernels() -> dict[str, str]:
    """Standard operators by ATen overload, and by its name alone: out= and in-place overloads follow from others."""
    found: dict[str, str] = {}
    for op in all_ops():
        for aten in op.aten:
            found[aten] = op.name
            found.setdefault(aten.split(".")[0], op.name)
    return found


def kernel(name: str) -> str:
    """The standard operator whose kernel serves an overload; empty if none does."""
    bare = name.removeprefix("aten::")
    base = bare.split(".")[0]
    return _kernels().get(bare) or _kernels().get(base) or _kernels().get(base.rstrip("_"), "")


def argument_names(name: str) -> list[str]:
    """Names of the arguments, in order."""
    return [argument.name for argument in overload(name)._schema.arguments]


def result_names(name: str) -> list[str]:
    """Names of the results; those without one are numbered."""
    returns = overload(name)._schema.returns
    return [r.name or ("result" if len(returns) == 1 else f"result {i}") for i, r in enumerate(returns)]


@functools.cache
def written(name: str) -> frozenset[str]:
    """Names of the arguments that the operator writes."""
    schema = overload(name)._schema
    written = {a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write}
    return frozenset(written | set(HIDDEN_WRITES.get(name.removeprefix("aten::"), ())))


def tensor(value: torch.Tensor) -> dict[str, Any]:
    """All that matters of a tensor but its values."""
    return {
        "numel": value.numel(),
        "sizes": list(value.shape),
        "strides": list(value.stride()),
        "view": bool(value._is_view()) or value.storage_offset() != 0,
        "dtype": str(value.dtype).removeprefix("torch."),
        "device": str(value.device),
        "data_ptr": hex(value.data_ptr()),
    }


def value(argument: Any, values: bool = False) -> Any:
    """An argument or a result, for JSON; tensors with their elements where ``values``."""
    if isinstance(argument, torch.Tensor):
        described = tensor(argument)
        if values:
            described["values"] = numbers(argument)
        return described
    if isinstance(argument, (list, tuple)):
        return [value(item, values) for item in argument]
    return argument if argument is None or isinstance(argument, (bool, int, float, str)) else str(argument)


def numbers(value: torch.Tensor) -> Any:
    """Elements as nested lists; complex ones in words."""
    host = value.detach().cpu().resolve_conj().resolve_neg()
    return str(host.tolist()) if host.is_complex() else host.tolist()
