"""Train a model on a device; the results are plain numbers and CPU tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import torch
from model_zoo import CASES, OPTIMIZERS, Case
from torch import Tensor, nn

import hardpoint

STEPS = 20

#: Tolerance of autocast losses against float32 on the CPU: significands have 8 (bfloat16) or 11 bits (float16), and
#: errors accumulate over 20 steps.
HALF_TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 1e-2}


@dataclass(frozen=True)
class Run:
    """Results of a training."""

    losses: list[float]
    state: dict[str, Tensor]
    #: ATen operator -> calls in the CPU tier.
    cpu_tier: dict[str, int]


def cpu_tier() -> dict[str, int]:
    """Calls in the CPU tier since the counters were reset, by operator."""
    return {name: calls["cpu"] for name, calls in sorted(hardpoint.counters().items()) if calls.get("cpu")}


def train(
    case: Case,
    device: str,
    *,
    optimizer: str = "",
    dtype: torch.dtype | None = None,
    double: bool = False,
    steps: int = STEPS,
) -> Run:
    """Train with the same weights and data on every device; under autocast if a dtype is given."""
    torch.manual_seed(0)
    model = case.build().train()
    generator = torch.Generator().manual_seed(1)
    batches = [case.batch(generator) for _ in range(2)]
    if double:
        model = model.double()
        batches = [{k: v.double() if v.is_floating_point() else v for k, v in batch.items()} for batch in batches]
    model = copy.deepcopy(model).to(device)
    batches = [{k: v.to(device) for k, v in batch.items()} for batch in batches]
    options = {} if case.rate is None else {"lr": case.rate}
    update = OPTIMIZERS[optimizer or case.optimizer](model.parameters(), **options)
    # The default scale, 65536, would overflow float16 and skip steps.
    scaler = torch.amp.GradScaler(device, init_scale=256.0, enabled=dtype == torch.float16)
    context: Callable[[], AbstractContextManager[object]] = (
        nullcontext if dtype is None else lambda: torch.autocast(device, dtype=dtype)
    )

    hardpoint.reset_counters()
    losses = []
    for step in range(steps):
        update.zero_grad()
        with context():
            loss = case.loss(model, batches[step % len(batches)])
        scaler.scale(loss).backward()
        scaler.step(update)
        scaler.update()
        losses.append(loss.item())
    counted = cpu_tier()
    assert not scaler.is_enabled() or scaler.get_scale() == 256.0, "a step was skipped"
    return Run(losses, {k: v.cpu() for k, v in model.state_dict().items()}, counted)


@cache
def trained(name: str, device: str, dtype: torch.dtype | None = None, *, double: bool = False) -> Run:
    """Cached `train`."""
    return train(CASES[name], device, dtype=dtype, double=double)


def statistics(model: nn.Module) -> list[str]:
    """Names of batch norm running statistics."""
    return [
        f"{name}.{buffer}"
        for name, layer in model.named_modules()
        if isinstance(layer, nn.modules.batchnorm._BatchNorm)
        for buffer in ("running_mean", "running_var", "num_batches_tracked")
    ]
