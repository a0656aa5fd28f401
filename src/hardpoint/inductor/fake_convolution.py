"""The memory format of traced convolutions.

PyTorch assumes that a PrivateUse1 device returns contiguous tensors. Hardpoint's convolutions keep the format of their
operands, as on CPUs and GPUs, and Inductor prefers channels last for them.
"""

from __future__ import annotations

from typing import Any

import torch


def register(name: str) -> None:
    """Trace convolutions on the device with their real memory format."""
    from torch._subclasses import fake_impls

    known = fake_impls.op_implementations_dict
    for op, backward in (
        (torch.ops.aten.convolution.default, False),
        (torch.ops.aten.convolution_backward.default, True),
    ):
        if op in known:
            known[op] = _traced(name, known[op], backward)


def _traced(name: str, original: Any, backward: bool) -> Any:
    def convolution(mode: Any, func: Any, *arguments: Any, **named: Any) -> Any:
        found = original(mode, func, *arguments, **named)
        first = 1 if backward else 0  # after the gradient of the output
        operands = [*arguments, *named.values()][first : first + 2]
        tensors = [value for value in operands if isinstance(value, torch.Tensor)]
        if not tensors or tensors[0].device.type != name:
            return found
        layout = _format(*tensors)
        with mode:
            if not backward:
                return found.contiguous(memory_format=layout)
            layouts = (layout, _format(tensors[-1]))  # the weight's gradient is like the weight
            gradients = [
                g if g is None else g.contiguous(memory_format=f) for g, f in zip(found, layouts, strict=False)
            ]
            return (*gradients, found[2])

    return convolution


def _format(*operands: torch.Tensor) -> torch.memory_format:
    """Channels last if an operand is, as in csrc/torch/ops/convolution.cpp."""
    from torch._prims_common import suggest_memory_format

    for operand in operands:
        found = suggest_memory_format(operand)
        if found != torch.contiguous_format:
            return found
    return torch.contiguous_format
