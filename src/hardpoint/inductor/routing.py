"""Runs Hardpoint's graph mode for ``torch.compile(model)`` if Inductor cannot compile for the device."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch


def install(name: str, reason: str) -> None:
    """Send graphs with inputs on the device to ``backend="hardpoint"``, and all others to Inductor."""
    from torch._inductor import compile_fx

    inductor = compile_fx.compile_fx

    @functools.wraps(inductor)
    def route(module: torch.fx.GraphModule, inputs: Sequence[Any], *arguments: Any, **named: Any) -> Callable[..., Any]:
        if not _uses(name, module, inputs):
            return inductor(module, inputs, *arguments, **named)  # type: ignore[no-any-return]
        _say(name, reason)
        from hardpoint.graph.backend import backend

        return backend(module, inputs)

    compile_fx.compile_fx = route


def _uses(name: str, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    tensors = [*inputs, *module.parameters(), *module.buffers()]
    if any(isinstance(value, torch.Tensor) and value.device.type == name for value in tensors):
        return True
    devices = (node.kwargs.get("device") for node in module.graph.nodes)
    return any(device is not None and torch.device(device).type == name for device in devices)


@functools.cache
def _say(name: str, reason: str) -> None:
    print(f'[hardpoint] torch.compile runs backend="hardpoint" for {name}: {reason}', file=sys.stderr)
