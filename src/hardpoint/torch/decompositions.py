"""Which operators PyTorch, or we, can express in terms of others; asked by the adapter when a device has no kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardpoint.ops.torch_overloads import NOT_DECOMPOSED
from hardpoint.torch.compositions import OWN


def find(name: str) -> Callable[..., Any] | None:
    """The decomposition of an overload, named as ``aten::add.Tensor``, or None."""
    import torch
    from torch._decomp import decomposition_table

    namespace, _, bare = name.partition("::")
    if name in OWN:
        return OWN[name]
    if namespace != "aten" or bare in NOT_DECOMPOSED:
        return None
    packet, _, overload = bare.partition(".")
    operator = _overload(packet, overload or "default")
    # Numbers must not depend on which tier happens to serve: a seed gives the same ones at every call.
    if operator is None or torch.Tag.nondeterministic_seeded in operator.tags:
        return None
    if operator in decomposition_table:
        found: Callable[..., Any] = decomposition_table[operator]
        return found
    functional = functional_overload(packet, operator)
    if functional is None or functional not in decomposition_table:
        return None
    return _writing(decomposition_table[functional], operator)


def _overload(packet: str, overload: str) -> Any:
    import torch

    return getattr(getattr(torch.ops.aten, packet, None), overload, None)


def _inputs(operator: Any) -> list[tuple[str, str]]:
    """Names and types of what an overload reads."""
    return [(a.name, str(a.type)) for a in operator._schema.arguments if not a.is_out]


def functional_overload(packet: str, operator: Any) -> Any:
    """The overload that takes the same and returns new tensors, for an out= or in-place one."""
    import torch

    writes = [a for a in operator._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not writes:
        return None
    in_place = not writes[0].is_out
    packets = getattr(torch.ops.aten, packet.removesuffix("_") if in_place else packet, None)
    for name in packets.overloads() if packets is not None else ():
        candidate = getattr(packets, name)
        if not candidate._schema.is_mutable and _inputs(candidate) == _inputs(operator):
            return candidate
    return None


def _writing(function: Callable[..., Any], operator: Any) -> Callable[..., Any]:
    """The functional decomposition, with its results written to where the overload wants them."""
    names = [a.name for a in operator._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    in_place = not any(a.is_out for a in operator._schema.arguments)

    def write(*args: Any, **kwargs: Any) -> Any:
        from torch._prims_common.wrappers import _maybe_resize_out

        targets = [args[0]] if in_place else [kwargs.pop(name) for name in names]
        results = function(*args, **kwargs)
        results = results if isinstance(results, (list, tuple)) else [results]
        for target, result in zip(targets, results, strict=True):
            if in_place and (target.shape != result.shape or target.dtype != result.dtype):
                raise RuntimeError("an in-place operator keeps its shape and dtype")
            _maybe_resize_out(target, result.shape)
            target.copy_(result)
        return targets[0] if len(targets) == 1 else tuple(targets)

    return write
