"""Losses and their gradients, with every reduction, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import FLOATS, IN_DOUBLE, LOW, compare, entries, on_cpu

import hardpoint

NAMES = ("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "nll_loss", "cross_entropy")
MORE = ("multi_margin_loss", "multilabel_margin_loss", "l1_loss", "kl_div")
ENTRIES = entries(*(f"nn.functional.{name}" for name in (*NAMES, *MORE)))
REDUCTIONS = ("none", "mean", "sum")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_samples(entry: Any) -> None:
    compare(entry, "loss", "softmax", limit=30, **IN_DOUBLE)


def check(function: Any, *given: torch.Tensor, dtype: torch.dtype = torch.float32) -> None:
    """Compare the result and the first argument's gradient with float64 on the CPU."""
    close: dict[str, float] = {"rtol": 2e-2, "atol": 2e-2} if dtype in LOW else {}
    right = [t.double() if t.is_floating_point() else t for t in given]
    ours = [t.to("sim") for t in given]
    right[0].requires_grad_()
    ours[0].requires_grad_()
    hardpoint.reset_counters()
    expected, actual = function(*right), function(*ours)
    assert actual.dtype is dtype
    assert actual.shape == expected.shape
    torch.testing.assert_close(actual.cpu(), expected.to(dtype), equal_nan=True, **close)
    seed = torch.randn(expected.shape, dtype=dtype)
    (a,) = torch.autograd.grad(actual, ours[0], seed.to("sim"))
    (b,) = torch.autograd.grad(expected, right[0], seed.double())
    torch.testing.assert_close(a.cpu(), b.to(dtype), equal_nan=True, **close)
    assert not on_cpu("loss", "softmax")


def probability(x: torch.Tensor) -> torch.Tensor:
    """Away from 0 and 1, where the logarithm amplifies 16-bit rounding."""
    return x.tanh().sigmoid()


PAIRS = {
    "mse": lambda x, t, r: F.mse_loss(x, t, reduction=r),
    "smooth_l1": lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r, beta=0.7),
    "smooth_l1 without squares": lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r, beta=0.0),
    "huber": lambda x, t, r: F.huber_loss(x, t, reduction=r, delta=0.6),
    "binary_cross_entropy": lambda x, t, r: F.binary_cross_entropy(probability(x), probability(t), reduction=r),
    "weighted binary_cross_entropy": lambda x, t, r: F.binary_cross_entropy(
        probability(x), probability(t), weight=t[:1].abs() + 0.1, reduction=r
    ),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pairs(name: str, dtype: torch.dtype) -> None:
    for shape in ((1,), (7, 5), (3, 4100)):
        x, t = torch.randn(shape).to(dtype), torch.randn(shape).to(dtype)
        for reduction in REDUCTIONS:
            if dtype in LOW and reduction == "sum" and shape == (3, 4100):
                continue  # the sum overflows float16, or its spacing exceeds the tolerance
            check(lambda x, t, r=reduction: PAIRS[name](x, t, r), x, t, dtype=dtype)
    x = torch.randn(6, 5).to(dtype)
    check(lambda x, t: PAIRS[name](x.t(), t.t(), "mean"), x, torch.randn(6, 5).to(dtype), dtype=dtype)


def test_edges_of_pairs() -> None:
    probability = torch.tensor([0.0, 1.0, 0.0, 1.0, 0.5])
    target = torch.tensor([0.0, 0.0, 1.0, 1.0, 0.5])
    for reduction in REDUCTIONS:
        check(lambda x, t, r=reduction: F.binary_cross_entropy(x, t, reduction=r), probability, target)
    empty = torch.empty(0, 3)
    for name in ("mse", "huber"):
        for reduction in REDUCTIONS:
            right, ours = PAIRS[name](empty, empty, reduction), PAIRS[name](empty.to("sim"), empty.to("sim"), reduction)
            torch.testing.assert_close(ours.cpu(), right, equal_nan=True)
    a, b = torch.randn(4, 1), torch.randn(4, 3, dtype=torch.float64)
    mixed = torch.ops.aten.mse_loss(a.to("sim"), b.to("sim"))
    assert mixed.dtype is torch.float64
    torch.testing.assert_close(mixed.cpu(), torch.ops.aten.mse_loss(a, b))
    out = torch.empty((), device="sim")
    assert torch.ops.aten.mse_loss.out(b.float().to("sim"), b.float().to("sim") + 1, 1, out=out) is out
    assert out.item() == pytest.approx(1.0)
    assert not on_cpu("loss")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
def test_nll_and_cross_entropy(dtype: torch.dtype, reduction: str, weighted: bool) -> None:
    for shape, places in (((50, 7), ()), ((3, 9), (4, 5)), ((2, 5), (3,)), ((9,), ())):
        classes = shape[-1]
        x = torch.randn(*shape, *places).to(dtype)
        t = torch.randint(classes, (*shape[:-1], *places))
        t[t == 3] = 2  # ignored
        weight = (torch.rand(classes) + 0.1).to(dtype) if weighted else None

        def given(x: torch.Tensor, weight: Any = weight) -> Any:
            return None if weight is None else weight.to(x.device, x.dtype)

        check(lambda x, t: F.nll_loss(x, t, given(x), ignore_index=2, reduction=reduction), x, t, dtype=dtype)
        check(lambda x, t: F.cross_entropy(x, t, given(x), ignore_index=2, reduction=reduction), x, t, dtype=dtype)
    check(lambda x, t: F.cross_entropy(x, t, label_smoothing=0.2, reduction=reduction), x[None], t[None], dtype=dtype)


def test_edges_of_nll() -> None:
    x = torch.randn(6, 5).log_softmax(1)
    ignored = torch.full((6,), -100)
    for reduction in REDUCTIONS:
        check(lambda x, t, r=reduction: F.nll_loss(x, t, reduction=r), x, ignored)
    wrong = torch.tensor([0, 9, -3, 1, 2, 3])
    for reduction in REDUCTIONS:
        with pytest.raises(IndexError, match=r"nll_loss.*: index (9|-3) is out of bounds for dimension with size 5"):
            F.nll_loss(x.to("sim"), wrong.to("sim"), reduction=reduction).cpu()
    bytes_ = torch.randint(5, (6,), dtype=torch.uint8)
    torch.testing.assert_close(F.nll_loss(x.to("sim"), bytes_.to("sim")).cpu(), F.nll_loss(x, bytes_))
    empty = torch.empty(0, 5)
    for reduction in REDUCTIONS:
        none = torch.empty(0, dtype=torch.int64)
        ours = F.nll_loss(empty.to("sim"), none.to("sim"), reduction=reduction)
        torch.testing.assert_close(ours.cpu(), F.nll_loss(empty, none, reduction=reduction), equal_nan=True)
    with pytest.raises(ValueError, match="batch_size"):
        F.nll_loss(x.to("sim"), torch.zeros(5, dtype=torch.int64, device="sim"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_margins(dtype: torch.dtype, reduction: str) -> None:
    x, t, w = torch.randn(40, 6, dtype=dtype), torch.randint(6, (40,)), torch.rand(6, dtype=dtype)
    for p in (1, 2):
        check(lambda x, t, p=p: F.multi_margin_loss(x, t, p, 0.8, None, reduction=reduction), x, t, dtype=dtype)
        check(
            lambda x, t, p=p: F.multi_margin_loss(x, t, p, 0.8, w.to(x.device, x.dtype), reduction=reduction),
            *(x, t),
            dtype=dtype,
        )
    labels = torch.stack([torch.randperm(6) for _ in range(40)])
    labels[torch.arange(40), torch.randint(6, (40,))] = -1
    check(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), x, labels, dtype=dtype)
    check(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), x[0], labels[0], dtype=dtype)


def test_a_large_batch_is_accurate() -> None:
    x, t = torch.randn(100_003), torch.randn(100_003)
    right = F.mse_loss(x.double(), t.double())
    assert F.mse_loss(x.to("sim"), t.to("sim")).item() == pytest.approx(right.item(), rel=1e-6)
    logs, labels = torch.randn(20_000, 3).log_softmax(1), torch.randint(3, (20_000,))
    right = F.nll_loss(logs.double(), labels)
    assert F.nll_loss(logs.to("sim"), labels.to("sim")).item() == pytest.approx(right.item(), rel=1e-5)
