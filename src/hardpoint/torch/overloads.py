"""Look up ATen overloads by name."""

from __future__ import annotations

from typing import Any


def aten_overload(name: str) -> Any:
    """The overload ``torch.ops.aten.add.Tensor`` of ``add.Tensor``; None if this torch lacks it."""
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)


def functional_overload(operator: Any) -> Any:
    """Functional counterpart of an out= or in-place overload, or None."""
    import torch

    writes = [a for a in operator._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if not writes:
        return None
    packet = operator._schema.name.partition("::")[2]
    packets = getattr(torch.ops.aten, packet if writes[0].is_out else packet.removesuffix("_"), None)
    for name in packets.overloads() if packets is not None else ():
        candidate = getattr(packets, name)
        if not candidate._schema.is_mutable and _inputs(candidate) == _inputs(operator):
            return candidate
    return None


def _inputs(operator: Any) -> list[tuple[str, str]]:
    """Names and types of the inputs of an overload."""
    return [(a.name, str(a.type)) for a in operator._schema.arguments if not a.is_out]
