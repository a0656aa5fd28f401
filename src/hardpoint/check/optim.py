"""Mode ``optim``: PyTorch's optimizer database; a few steps of each implementation against the CPU."""

from __future__ import annotations

import copy
import inspect
import zlib
from collections.abc import Callable
from functools import reduce
from typing import Any

import torch

import hardpoint
from hardpoint.check import compare, expectations
from hardpoint.check.report import Result, Step

SHAPES = ((3, 5), (7,), (2, 3, 4), (4, 4))
#: Many tensors, and a large one, for kernels that take them in pieces.
MANY_SHAPES = (*((5, 3),) * 66, (1031, 9))
#: Arguments that show in the result, unlike most defaults.
STRONG: dict[str, Any] = {"lr": 0.05, "betas": (0.5, 0.6), "eps": 0.1, "amsgrad": True, "momentum": 0.5, "alpha": 0.6}
#: Factors of the gradients, one for each step: they shrink, and grow again.
FACTORS = (4.0, 0.25, 1.0, 2.0)
#: Relative and absolute, after steps that accumulate rounding errors.
TOLERANCE = {"float32": (1e-4, 1e-5), "float64": (1e-7, 1e-7)}


def _database() -> dict[str, Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return {info.optim_cls.__name__: info for info in optim_db}


def names(pattern: Callable[[str], bool]) -> list[str]:
    """Names of the entries that match."""
    return [name for name in _database() if pattern(name)]


def _train(info: Any, kwargs: dict[str, Any], start: list[torch.Tensor], device: str) -> list[torch.Tensor]:
    """Parameters after a few steps towards different targets."""
    parameters = [torch.nn.Parameter(p.clone().to(device)) for p in start]
    targets = [torch.full_like(p, 0.1 * (i + 1)) for i, p in enumerate(parameters)]
    optimizer = info.optim_cls(parameters, **kwargs)
    factor = [1.0]

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        # Plain arithmetic, so that any CPU fallback comes from the optimizer.
        losses = [((p - t) * (p - t)).sum() for p, t in zip(parameters, targets, strict=True)]
        loss: torch.Tensor = reduce(torch.add, losses) * factor[0]
        loss.backward()
        return loss

    for factor[0] in FACTORS:
        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return [p.detach() for p in parameters]


def run(name: str, device: str, options: dict[str, Any], step: Step) -> Result:
    """Check one optimizer: every configuration and implementation against the plain one on the CPU."""
    result = Result("optim", name)
    if reason := expectations.OPTIMIZERS_NOT_TESTED.get(name):
        result.detail = reason
        return result
    info = _database()[name]
    plain = {i: False for i in ("foreach", "fused") if i in info.supported_impls}
    # Muon takes matrices only.
    shapes = [s for s in SHAPES if len(s) == 2] if name == "Muon" else SHAPES
    for dtype_name in [d for d in TOLERANCE if d in options["dtypes"]]:
        dtype = getattr(torch, dtype_name)
        torch.manual_seed(zlib.crc32(f"{name} {dtype_name}".encode()))
        start = [torch.randn(shape, dtype=dtype) for shape in shapes]
        known = inspect.signature(info.optim_cls).parameters
        strong = {key: value for key, value in STRONG.items() if key in known}
        configs = [(config.desc, config.kwargs, start) for config in info.optim_inputs_func(device="cpu")]
        if len(strong) > 1 and name != "Muon":
            configs.append(("many tensors", strong, [torch.randn(shape, dtype=dtype) for shape in MANY_SHAPES]))
        for description, given, start in configs:
            kwargs = copy.deepcopy(given)
            try:
                expected = _train(info, {**kwargs, **plain}, start, "cpu")
            except Exception:
                result.count(dtype_name).skipped += 1
                continue
            for implementation in ("plain", *plain):
                label = f"{dtype_name}, {description}, {implementation}"
                step(label)
                chosen = {**copy.deepcopy(kwargs), **plain}
                if implementation != "plain":
                    chosen[implementation] = True
                hardpoint.reset_counters()
                try:
                    actual = _train(info, chosen, start, device)
                    torch.accelerator.synchronize()
                    result.add_counters(dtype_name, hardpoint.counters())
                    tolerance = expectations.OPTIMIZER_TOLERANCES.get(name, TOLERANCE[dtype_name])
                    problem = compare.values(actual, expected, device, tolerance=tolerance)
                except Exception as error:
                    if isinstance(chosen.get("lr"), torch.Tensor) and implementation != "plain":
                        result.count(dtype_name).skipped += 1  # torch requires capturable=True here
                        continue
                    problem = f"{type(error).__name__}: {error}"
                result.record(dtype_name, label, problem)
    return result.set_verdict()
