"""The mode ``optim``: PyTorch's optimizer database, some steps of each implementation against the CPU."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

import hardpoint
from hardpoint.check import compare, tables
from hardpoint.check.report import Result

Step = Callable[[str], None]

STEPS = 4
SHAPES = ((3, 5), (7,), (2, 3, 4), (4, 4))
#: Steps multiply the rounding of each: float32 in float64's terms after STEPS of them.
TOLERANCE = {"float32": (1e-4, 1e-5), "float64": (1e-7, 1e-7)}


def _database() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db}


def names(pattern: Callable[[str], bool]) -> list[str]:
    """The entries that match."""
    return [name for name in _database() if pattern(name)]


def _train(info: Any, kwargs: dict[str, Any], start: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """The parameters after some steps towards a target that differs for each."""
    parameters = [torch.nn.Parameter(p.clone().to(device)) for p in start]
    targets = [torch.full_like(p, 0.1 * (i + 1)) for i, p in enumerate(parameters)]
    optimizer = info.optim_cls(parameters, **kwargs)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        # Nothing but arithmetic, so that what falls to the CPU is the optimizer's.
        losses = [((p - t) * (p - t)).sum() for p, t in zip(parameters, targets, strict=True)]
        loss: torch.Tensor = reduce(torch.add, losses)
        loss.backward()
        return loss

    for _ in range(STEPS):
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [p.detach() for p in parameters]


def _implementations(info: Any) -> list[str]:
    return ["plain", *(i for i in ("foreach", "fused") if i in info.supported_impls)]


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one optimizer: every configuration in each implementation, against the CPU's plain one."""
    result = Result("optim", name)
    if reason := tables.OPTIMIZERS_NOT_TESTED.get(name):
        result.detail = reason
        return result
    info = _database()[name]
    # Muon takes matrices only.
    shapes = [s for s in SHAPES if len(s) == 2] if name == "Muon" else SHAPES
    for dtype_name in ("float32", "float64"):
        if dtype_name not in options["dtypes"]:
            continue
        dtype = getattr(torch, dtype_name)
        torch.manual_seed(zlib.crc32(f"{name} {dtype_name}".encode()))
        start = [torch.randn(shape, dtype=dtype) for shape in shapes]
        for config in info.optim_inputs_func(device="cpu"):
            kwargs = copy.deepcopy(config.kwargs)
            plain = {i: False for i in _implementations(info) if i != "plain"}
            try:
                expected = _train(info, {**kwargs, **plain}, start, "cpu")
            except Exception:
                result.count(dtype_name).skipped += 1
                continue
            for implementation in _implementations(info):
                step(f"{dtype_name}, {config.desc}, {implementation}")
                chosen = {**copy.deepcopy(kwargs), **plain}
                if implementation != "plain":
                    chosen[implementation] = True
                hardpoint.reset_counters()
                try:
                    actual = _train(info, chosen, start, device)
                    torch.accelerator.synchronize()
                    result.add_counters(dtype_name, hardpoint.counters())
                    tolerance = tables.OPTIMIZER_TOLERANCES.get(info.optim_cls.__name__, TOLERANCE[dtype_name])
                    problem = compare.values(actual, expected, device, tolerance=tolerance)
                except Exception as error:
                    if isinstance(chosen.get("lr"), torch.Tensor) and implementation != "plain":
                        result.count(dtype_name).skipped += 1  # torch itself asks for capturable there
                        continue
                    problem = f"{type(error).__name__}: {error}"
                if problem:
                    result.count(dtype_name).failed += 1
                    label = f"{dtype_name}, {config.desc}, {implementation}"
                    result.failure = result.failure or f"{label}: {problem}"
                else:
                    result.count(dtype_name).passed += 1
    return result.settle()
