"""Fake implementations of operators that torch describes for other devices only."""

from __future__ import annotations

from typing import Any

import torch

from hardpoint.ops.torch_overloads import ATTENTION
from hardpoint.torch.overloads import aten_overload


def register() -> None:
    """Register them; call once per process."""
    from torch._subclasses.fake_impls import register_op_impl

    functions = {"forward": _attention, "backward": _attention_backward}
    for name, kind in ATTENTION.items():
        register_op_impl(aten_overload(name))(functions[kind])


def _empty(mode: Any, shape: Any, dtype: torch.dtype, like: Any) -> Any:
    with mode:
        return torch.empty(shape, dtype=dtype, device=like.device)


def _attention(mode: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    given = _named(function, args, kwargs)
    query, key, value = given["query"], given["key"], given["value"]
    if query.device.type != torch._C._get_privateuse1_backend_name():
        return NotImplemented
    batch, heads, queries, _ = query.shape
    sums = torch.float64 if query.dtype == torch.float64 else torch.float32
    # Heads are adjacent in memory, as in csrc/torch/ops/attention.cpp.
    out = _empty(mode, (batch, queries, heads, value.shape[-1]), query.dtype, query)
    lse = _empty(mode, (batch, heads, queries), sums, query)
    with mode:
        out = out.transpose(1, 2)
    return out, lse, None, None, queries, key.shape[2], None, None, None


def _attention_backward(mode: Any, function: Any, *args: Any, **kwargs: Any) -> Any:
    given = _named(function, args, kwargs)
    if given["query"].device.type != torch._C._get_privateuse1_backend_name():
        return NotImplemented
    inputs = (given[name] for name in ("query", "key", "value"))
    return *(_empty(mode, tensor.shape, tensor.dtype, tensor) for tensor in inputs), None


def _named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [argument.name for argument in function._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}
