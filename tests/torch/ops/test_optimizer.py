"""Fused and foreach optimizers on the device against the same optimizer on the CPU."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import hardpoint

SHAPES = [(3,), (7, 5), (), (64, 65), (4097,), (2, 3, 4), (9000,), (0, 3)]

FUSED: list[tuple[type[torch.optim.Optimizer], dict[str, Any]]] = [
    (torch.optim.Adam, {}),
    (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True}),
    (torch.optim.Adam, {"maximize": True, "betas": (0.5, 0.8), "eps": 1e-3}),
    (torch.optim.AdamW, {}),
    (torch.optim.AdamW, {"weight_decay": 0.2, "amsgrad": True, "maximize": True}),
    (torch.optim.SGD, {}),
    (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "maximize": True}),
    (torch.optim.SGD, {"momentum": 0.8, "dampening": 0.3}),
    (torch.optim.Adagrad, {}),
    (torch.optim.Adagrad, {"lr_decay": 0.1, "weight_decay": 0.2, "maximize": True}),
]


def name(case: Any) -> str:
    return case.__name__ if isinstance(case, type) else "+".join(case) or "plain" if isinstance(case, dict) else ""


LOW = (torch.float16, torch.bfloat16)


def parameters(dtype: torch.dtype) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The same parameters on both. For 16-bit floats the CPU uses float32, since its own fused SGD is wrong there."""
    host = [torch.randn(shape).to(dtype) for shape in SHAPES]
    # A dense tensor that is not contiguous.
    host.append(torch.randn(2, 8, 6, 6).to(dtype).to(memory_format=torch.channels_last))
    exact = torch.float32 if dtype in LOW else dtype
    return [p.to(exact).clone().requires_grad_() for p in host], [p.sim().requires_grad_() for p in host]


def give_gradients(host: list[torch.Tensor], device: list[torch.Tensor], scale: float = 1.0) -> None:
    """No gradient near zero: a thousandth of its square, by which Adam divides, would underflow in float16."""
    for p, q in zip(host, device, strict=True):
        drawn = torch.randn_like(p)
        q.grad = ((drawn + torch.copysign(torch.tensor(0.25), drawn)) * scale).to(q.dtype).sim()
        p.grad = q.grad.cpu().to(p.dtype)


def equal(device: list[torch.Tensor], host: list[torch.Tensor], dtype: torch.dtype) -> None:
    # Parameters and state are rounded to 8 or 11 bits after every step.
    low = {"rtol": 4e-2, "atol": 4e-2} if dtype in LOW else {}
    for q, p in zip(device, host, strict=True):
        torch.testing.assert_close(q.detach().cpu().to(p.dtype), p.detach(), **low)
        assert q.stride() == p.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(("kind", "options"), FUSED, ids=name)
def test_fused(kind, options, dtype, counted):
    host, device = parameters(dtype)
    one, two = kind(host, lr=0.05, fused=True, **options), kind(device, lr=0.05, fused=True, **options)
    for _ in range(3):
        give_gradients(host, device)
        one.step()
        two.step()
    equal(device, host, dtype)
    fused = {op: tiers for op, tiers in counted().items() if "_fused_" in op}
    assert fused
    assert all(set(tiers) == {"portable"} for tiers in fused.values()), fused


@pytest.mark.parametrize(("kind", "options"), FUSED, ids=name)
@pytest.mark.parametrize("place", ["cpu", "sim"])
def test_rate_in_a_tensor(kind, options, place):
    host, device = parameters(torch.float32)
    one = kind(host, lr=torch.tensor(0.05), fused=True, **options)
    two = kind(device, lr=torch.tensor(0.05, device=place), fused=True, **options)
    for _ in range(2):
        give_gradients(host, device)
        one.step()
        two.step()
    equal(device, host, torch.float32)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD, torch.optim.Adagrad])
@pytest.mark.parametrize("broken", [False, True])
def test_scaled_gradients(kind, broken):
    """grad_scale unscales within the step; found_inf skips it."""
    host, device = parameters(torch.float32)
    one, two = kind(host, lr=0.1, fused=True), kind(device, lr=0.1, fused=True)
    give_gradients(host, device)
    one.step()
    two.step()
    give_gradients(host, device, 1024.0)
    before = [q.detach().cpu() for q in device]
    for optimizer, place in ((one, "cpu"), (two, "sim")):
        optimizer.grad_scale = torch.tensor(1024.0, device=place)
        optimizer.found_inf = torch.tensor(float(broken), device=place)
        optimizer.step()
    equal(device, host, torch.float32)
    moved = any(not torch.equal(q.detach().cpu(), b) for q, b in zip(device, before, strict=True))
    assert moved != broken
    if not broken:
        for p, q in zip(host, device, strict=True):
            torch.testing.assert_close(q.grad.cpu(), p.grad)  # unscaled in place


@pytest.mark.parametrize("foreach", [None, True, False])
@pytest.mark.parametrize(
    "kind",
    [
        *(torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop),
        *(torch.optim.Adadelta, torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Rprop),
        *(torch.optim.ASGD,),
    ],
    ids=name,
)
def test_lists(kind, foreach, counted):
    host, device = parameters(torch.float32)
    one, two = kind(host, lr=0.01, foreach=False), kind(device, lr=0.01, foreach=foreach)
    for _ in range(2):
        give_gradients(host, device)
        one.step()
        two.step()
    equal(device, host, torch.float32)


def test_state_moves_with_the_optimizer():
    host, device = parameters(torch.float32)
    one, two = torch.optim.AdamW(host, fused=True), torch.optim.AdamW(device, fused=True)
    give_gradients(host, device)
    one.step()
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for p, q in zip(host, device, strict=True):
        q.data.copy_(p.data)
    give_gradients(host, device)
    one.step()
    two.step()
    equal(device, host, torch.float32)


def test_gradient_clipping():
    host, device = parameters(torch.float32)
    give_gradients(host, device)
    for error in (False, True):
        a = torch.nn.utils.clip_grad_norm_(host, 1.5, error_if_nonfinite=error)
        b = torch.nn.utils.clip_grad_norm_(device, 1.5, error_if_nonfinite=error)
        torch.testing.assert_close(b.cpu(), a)
        for p, q in zip(host, device, strict=True):
            torch.testing.assert_close(q.grad.cpu(), p.grad)


# ---- Gradient scaling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("wrong", [None, float("inf"), float("nan"), float("-inf")])
def test_unscale(dtype, wrong, counted):
    lists = [torch.randn(shape).to(dtype) for shape in SHAPES]
    if wrong is not None:
        lists[3][10, 60] = wrong
    mine = [t.sim() for t in lists]
    inverse = torch.tensor(0.25)
    expected, found = torch.zeros(1), torch.zeros(1, device="sim")
    torch._amp_foreach_non_finite_check_and_unscale_(lists, expected, inverse)
    torch._amp_foreach_non_finite_check_and_unscale_(mine, found, inverse.sim())
    assert found.item() == expected.item() == float(wrong is not None)
    for t, m in zip(lists, mine, strict=True):
        torch.testing.assert_close(m.cpu(), t, equal_nan=True)
    assert counted()["aten::_amp_foreach_non_finite_check_and_unscale_"] == {"portable": 1}


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("tracker", [0, 1, 2])
@pytest.mark.parametrize("scale", [1024.0, 3e38])
def test_update_scale(found, tracker, scale, counted):
    results = []
    for place in ("cpu", "sim"):
        value = torch.tensor([scale], device=place)
        count = torch.tensor([tracker], dtype=torch.int32, device=place)
        torch._amp_update_scale_(value, count, torch.tensor([found], device=place), 2.0, 0.5, 3)
        results.append((value.tolist(), count.tolist()))
    assert results[0] == results[1]
    assert counted()["aten::_amp_update_scale_"] == {"portable": 1}


@pytest.mark.parametrize("fused", [True, False])
def test_strides_of_dimensions_of_size_one(fused: bool) -> None:
    """Gradients of depthwise convolutions may have other ones than their weights, with elements in the same order."""
    weight, gradient = torch.randn(4, 1, 3, 3), torch.randn(4, 1, 3, 3)
    devices: dict[str, torch.Tensor] = {}
    for device in ("cpu", "sim"):
        parameter = torch.nn.Parameter(weight.clone().to(device))
        parameter.grad = gradient.to(device).as_strided((4, 1, 3, 3), (9, 1, 3, 1))
        hardpoint.reset_counters()
        torch.optim.AdamW([parameter], lr=0.1, fused=fused, foreach=not fused).step()
        devices[device] = parameter.detach().cpu()
    assert not [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers]
    torch.testing.assert_close(devices["sim"], devices["cpu"])
