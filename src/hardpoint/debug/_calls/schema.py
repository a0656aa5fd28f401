"""ATen schemas: names of arguments and results, written arguments, and the kernel behind an overload."""

from __future__ import annotations

import functools
from typing import Any

import torch

from hardpoint.ops import all_ops
from hardpoint.ops.torch_overloads import HIDDEN_WRITES


@functools.cache
def overload(name: str) -> Any:
    """The function of an overload: ``aten::add.Tensor`` -> ``torch.ops.aten.add.Tensor``."""
    namespace, _, rest = name.partition("::")
    base, _, kind = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), kind or "default")


def base_name(name: str) -> str:
    """``aten::add.Tensor`` -> ``add``."""
    return name.removeprefix("aten::").split(".")[0]


@functools.cache
def _kernels() -> dict[str, str]:
    """Standard operators by ATen overload and, for the ``out=`` and in-place variants, by base name."""
    kernels: dict[str, str] = {}
    for op in all_ops():
        for aten in op.aten:
            kernels[aten] = op.name
            kernels.setdefault(aten.split(".")[0], op.name)
    return kernels


def kernel(name: str) -> str:
    """The standard operator that serves an overload; empty if none does."""
    base = base_name(name)
    return _kernels().get(name.removeprefix("aten::")) or _kernels().get(base) or _kernels().get(base.rstrip("_"), "")


def argument_names(name: str) -> list[str]:
    """Names of the arguments, in order."""
    return [argument.name for argument in overload(name)._schema.arguments]


def by_name(name: str, arguments: list[Any]) -> dict[str, Any]:
    """Arguments in schema order, keyed by name."""
    return dict(zip(argument_names(name), arguments, strict=True))


def result_names(name: str) -> list[str]:
    """Names of the results; unnamed ones are ``result``, or ``result 0``, ``result 1``, ..."""
    returns = overload(name)._schema.returns
    return [r.name or ("result" if len(returns) == 1 else f"result {i}") for i, r in enumerate(returns)]


@functools.cache
def written(name: str) -> frozenset[str]:
    """Names of the arguments that the operator writes."""
    arguments = overload(name)._schema.arguments
    declared = {a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write}
    return frozenset(declared | set(HIDDEN_WRITES.get(name.removeprefix("aten::"), ())))
