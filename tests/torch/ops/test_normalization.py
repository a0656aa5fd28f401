"""Layer, RMS, batch, instance and group normalization: results, statistics and gradients against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import FLOATS, IN_DOUBLE, LOW, compare, entries, on_cpu

import hardpoint

NAMES = ("nn.functional.layer_norm", "native_layer_norm", "nn.functional.batch_norm", "native_batch_norm")
MORE = ("_native_batch_norm_legit", "nn.functional.group_norm", "nn.functional.instance_norm", "nn.functional.rms_norm")


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries(*NAMES, *MORE))
def test_samples(entry: Any) -> None:
    # Gradients of very short rows cancel out.
    compare(entry, "normalization", single=1e-4, **IN_DOUBLE)


def check(function: Any, *given: torch.Tensor | None, dtype: torch.dtype = torch.float32) -> None:
    """Compare results and all gradients with float64 on the CPU."""
    close: dict[str, float] = {"rtol": 2e-2, "atol": 4e-2} if dtype in LOW else {"rtol": 1e-5, "atol": 2e-5}
    right = [None if t is None else t.double().requires_grad_() for t in given]
    ours = [None if t is None else t.detach().to("sim").requires_grad_() for t in given]
    hardpoint.reset_counters()
    expected, actual = function(*right), function(*ours)
    assert actual.dtype is dtype
    torch.testing.assert_close(actual.cpu(), expected.to(dtype), **close)
    seed = torch.randn(expected.shape, dtype=dtype)
    a = torch.autograd.grad(actual, [t for t in ours if t is not None], seed.to("sim"))
    b = torch.autograd.grad(expected, [t for t in right if t is not None], seed.double())
    for mine, wanted, source in zip(a, b, [t for t in given if t is not None], strict=True):
        assert mine.dtype is source.dtype
        # Sums over many rows.
        more = {"rtol": close["rtol"] * 5, "atol": close["atol"] * 5}
        torch.testing.assert_close(mine.cpu(), wanted.to(mine.dtype), **more)
    assert not on_cpu("normalization")


def separated(*shape: int) -> torch.Tensor:
    """No element near zero or near its neighbor: gradients over one or two such elements are mere rounding errors."""
    x = torch.randn(shape).abs() + 0.5
    x.flatten()[1::2].neg_()
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (300, 33), (2, 7, 768), (5, 3000)], ids=str)
def test_layer_norm(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    if shape[-1] == 1 and dtype in LOW:
        pytest.skip("one element has no variance, only rounding errors")
    x, w, b = separated(*shape).to(dtype), torch.randn(shape[-1]).to(dtype), torch.randn(shape[-1]).to(dtype)
    check(lambda x, w, b: F.layer_norm(x, shape[-1:], w, b), x, w, b, dtype=dtype)
    check(lambda x: F.layer_norm(x, shape[-1:]), x, dtype=dtype)
    check(lambda x, w: F.rms_norm(x, shape[-1:], w, 1e-5), x, w, dtype=dtype)
    check(lambda x: F.rms_norm(x, shape[-1:]), x, dtype=dtype)


def test_layer_norm_layouts_and_mixed_dtypes() -> None:
    x = torch.randn(6, 5, 8)
    w, b = torch.randn(5, 8), torch.randn(5, 8)
    check(lambda x, w, b: F.layer_norm(x.transpose(0, 1).reshape(5, 6, 8).transpose(0, 1), (5, 8), w, b), x, w, b)
    check(lambda x, w: F.layer_norm(x[::2], (5, 8), w), x, w)
    low = torch.randn(40, 64).bfloat16()
    check(lambda x, w, b: F.layer_norm(x, (64,), w, b), low, torch.randn(64), torch.randn(64), dtype=torch.bfloat16)
    out, mean, rstd = torch.native_layer_norm(low.to("sim"), [64], None, None, 1e-5)
    assert mean.dtype is rstd.dtype is torch.float32
    assert mean.shape == (40, 1)
    assert out.dtype is torch.bfloat16
    empty = torch.native_layer_norm(torch.empty(0, 4, device="sim"), [4], None, None, 1e-5)
    assert [t.shape for t in empty] == [(0, 4), (0, 1), (0, 1)]
    grads = torch.ops.aten.native_layer_norm_backward(
        *(empty[0], empty[0], [4], empty[1], empty[2]), torch.ones(4, device="sim"), None, [True, True, False]
    )
    assert torch.equal(grads[1].cpu(), torch.zeros(4))
    assert grads[2] is None
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(torch.ones(2, 3, device="sim"), (4,))


def test_layer_norm_of_a_large_mean() -> None:
    x = torch.randn(4, 1000) + 1000
    right = F.layer_norm(x.double(), (1000,))
    torch.testing.assert_close(F.layer_norm(x.to("sim"), (1000,)).cpu(), right.float(), rtol=1e-3, atol=2e-3)
    right = F.batch_norm(x.t().double(), None, None, training=True)
    torch.testing.assert_close(
        F.batch_norm(x.t().contiguous().to("sim"), None, None, training=True).cpu(), right.float(), rtol=1e-3, atol=2e-3
    )


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return x.to(memory_format=torch.channels_last)


BATCHES = [(6, 5), (200, 70), (4, 3, 33), (5, 7, 4, 5), (2, 3, 30, 40), (3, 2, 3, 4, 5)]


@pytest.mark.parametrize("shape", BATCHES, ids=str)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm(shape: tuple[int, ...], training: bool, affine: bool) -> None:
    c = shape[1]
    x = torch.randn(shape)
    w, b = (torch.randn(c), torch.randn(c)) if affine else (None, None)
    mean, var = torch.randn(c), torch.rand(c) + 0.5
    formats = [lambda t: t, channels_last] if len(shape) == 4 else [lambda t: t]
    for layout in formats:
        stats: dict[str, list[torch.Tensor]] = {}

        def norm(x: torch.Tensor, w: Any, b: Any, layout: Any = layout, stats: Any = stats) -> torch.Tensor:
            kept = stats[x.device.type] = [mean.to(x.device, x.dtype), var.to(x.device, x.dtype)]
            out = F.batch_norm(layout(x), *kept, w, b, training, 0.3)
            if layout is channels_last:
                assert out.is_contiguous(memory_format=torch.channels_last)
            return out

        check(norm, x, w, b)
        for ours, right in zip(stats["sim"], stats["cpu"], strict=True):
            torch.testing.assert_close(ours.cpu(), right.float())
        assert torch.equal(stats["cpu"][0].float(), mean) is not training


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_batch_norm_dtypes(dtype: torch.dtype) -> None:
    kept = torch.float32 if dtype in LOW else dtype
    x, w, b = torch.randn(8, 6, 9).to(dtype), torch.randn(6).to(kept), torch.randn(6).to(kept)
    mean, var = torch.zeros(6, dtype=kept), torch.ones(6, dtype=kept)
    for training in (True, False):

        def norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, training: bool = training) -> torch.Tensor:
            wide = torch.float64 if x.device.type == "cpu" else kept
            return F.batch_norm(x, mean.to(x.device, wide), var.to(x.device, wide), w, b, training)

        check(norm, x, w, b, dtype=dtype)
    module = torch.nn.BatchNorm1d(6).to("sim", dtype)
    reference = torch.nn.BatchNorm1d(6).double()
    out, right = module(x.to("sim")), reference(x.double())
    torch.testing.assert_close(out.cpu(), right.to(dtype), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(module.running_var.cpu(), reference.running_var.to(dtype), rtol=1e-2, atol=1e-2)
    assert module.num_batches_tracked.item() == 1
    assert not on_cpu("normalization")


def test_group_norm_of_an_empty_batch() -> None:
    x = torch.randn(0, 6, 4, device="sim", requires_grad=True)
    w, b = (torch.randn(6, device="sim", requires_grad=True) for _ in range(2))
    hardpoint.reset_counters()
    out = F.group_norm(x, 3, w, b)
    assert out.shape == x.shape
    out.sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    for parameter in (w, b):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad.cpu(), torch.zeros(6))
    assert not on_cpu("normalization")


@pytest.mark.parametrize(("channels", "plane", "groups"), [(6, 0, 2), (6, 0, 6), (0, 3, 2)])
def test_group_norm_of_no_elements(channels: int, plane: int, groups: int) -> None:
    """As on the CPU: means of 0, an undefined deviation, and gradients of the weight that are NaN."""
    x, w, b = torch.randn(2, channels, plane), torch.randn(channels), torch.randn(channels)
    hardpoint.reset_counters()
    expected = torch.native_group_norm(x, w, b, 2, channels, plane, groups, 1e-5)
    found = torch.native_group_norm(*(t.to("sim") for t in (x, w, b)), 2, channels, plane, groups, 1e-5)
    shape = (2, channels, plane, groups, [True, True, True])
    expected += torch.ops.aten.native_group_norm_backward(x, x, expected[1], expected[2], w, *shape)
    found += torch.ops.aten.native_group_norm_backward(x.to("sim"), x.to("sim"), *found[1:3], w.to("sim"), *shape)
    for ours, right in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.cpu(), right, equal_nan=True)
    assert not on_cpu("normalization")


def test_batch_norm_of_statistics_with_gaps_and_of_nothing() -> None:
    x, w, b = torch.randn(7, 4, 5), torch.randn(4), torch.randn(4)
    kept = torch.rand(4, 6) + 0.5
    for training in (True, False):
        ours, right = kept.to("sim"), kept.clone()
        hardpoint.reset_counters()
        out = F.batch_norm(x.to("sim"), ours[:, 1], ours[:, 4], w.to("sim"), b.to("sim"), training)
        expected = F.batch_norm(x, right[:, 1], right[:, 4], w, b, training)
        torch.testing.assert_close(out.cpu(), expected)
        torch.testing.assert_close(ours.cpu(), right)
    assert F.batch_norm(x[:0].to("sim"), *kept[:, :2].t().to("sim")).shape == (0, 4, 5)
    assert not on_cpu("normalization")


def test_batch_norm_variants() -> None:
    x, w, b = torch.randn(7, 4, 5), torch.randn(4), torch.randn(4)
    mean, var = torch.zeros(4), torch.ones(4)
    aten = torch.ops.aten
    to = [t.to("sim") for t in (x, w, b, mean, var)]
    right = torch.native_batch_norm(x, w, b, mean.clone(), var.clone(), True, 0.1, 1e-5)
    hardpoint.reset_counters()
    for made in (
        aten._native_batch_norm_legit(*to[:3], to[3].clone(), to[4].clone(), True, 0.1, 1e-5),
        aten._native_batch_norm_legit.no_stats(*to[:3], True, 0.1, 1e-5),
        aten._batch_norm_with_update(*to[:3], to[3].clone(), to[4].clone(), 0.1, 1e-5),
        torch.native_batch_norm(
            *to,
            True,
            0.1,
            1e-5,
            out=tuple(torch.empty(0, device="sim") for _ in range(3)),  # type: ignore[call-overload]
        ),
    ):
        for ours, wanted in zip(made, right, strict=False):
            torch.testing.assert_close(ours.cpu(), wanted)
    grad = torch.randn_like(x)
    ours = aten.batch_norm_backward(
        *(grad.to("sim"), to[0], to[1], None, None, right[1].to("sim"), right[2].to("sim"), True, 1e-5),
        *([True, False, True], torch.empty(0, dtype=torch.uint8, device="sim")),
    )
    wanted = aten.native_batch_norm_backward(
        grad, x, w, None, None, right[1], right[2], True, 1e-5, [True, False, True]
    )
    assert ours[1] is None
    torch.testing.assert_close(ours[0].cpu(), wanted[0])
    torch.testing.assert_close(ours[2].cpu(), wanted[2])
    assert not on_cpu("normalization")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(("shape", "groups"), [((2, 6), 3), ((3, 8, 20), 2), ((2, 6, 5, 7), 6), ((4, 4, 33, 3), 1)])
def test_group_norm(shape: tuple[int, ...], groups: int, dtype: torch.dtype) -> None:
    if len(shape) == 2 and dtype in LOW:
        pytest.skip("with two elements per group, gradients cancel to rounding errors")
    x, w, b = separated(*shape).to(dtype), torch.randn(shape[1]).to(dtype), torch.randn(shape[1]).to(dtype)
    check(lambda x, w, b: F.group_norm(x, groups, w, b), x, w, b, dtype=dtype)
    check(lambda x: F.group_norm(x, groups), x, dtype=dtype)
    if dtype in LOW:
        check(lambda x, w, b: F.group_norm(x, groups, w, b), x, w.float(), b.float(), dtype=dtype)


def test_group_norm_of_empty_tensors() -> None:
    results = []
    hardpoint.reset_counters()
    for device in ("cpu", "sim"):
        x, w, b = (torch.ones(s, device=device, requires_grad=True) for s in ((0, 4, 5), (4,), (4,)))
        y = F.group_norm(x, 2, w, b)
        results.append([y.detach().cpu(), *(g.cpu() for g in torch.autograd.grad(y.sum(), (x, w, b)))])
    torch.testing.assert_close(results[1], results[0])
    assert not on_cpu("normalization")


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_gaps_in_the_statistics(training: bool) -> None:
    x, both = torch.randn(6, 5, 7), torch.rand(5, 2) + 0.5
    hardpoint.reset_counters()
    kept = []
    for device in ("cpu", "sim"):
        running = both.clone().to(device)
        y = F.batch_norm(x.to(device), running[:, 0], running[:, 1], training=training)
        kept.append([y.cpu(), running.cpu()])
    torch.testing.assert_close(kept[1], kept[0], rtol=1e-5, atol=1e-5)
    assert torch.equal(kept[1][1], both) is not training
    assert not on_cpu("normalization")


def test_double_backward() -> None:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    for device in ("cpu", "sim"):
        a = x.to(device).requires_grad_()
        (g,) = torch.autograd.grad(F.layer_norm(a, (5,)).pow(2).sum(), a, create_graph=True)
        (h,) = torch.autograd.grad(g.pow(2).sum(), a)
        if device == "cpu":
            expected = h
    torch.testing.assert_close(h.cpu(), expected)
