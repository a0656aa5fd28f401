"""Pooling, against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import compare, entries, on_cpu

import hardpoint

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)
ENTRIES = entries(
    *(
        f"nn.functional.{name}_pool{rank}d"
        for name in ("max", "avg", "adaptive_avg", "adaptive_max")
        for rank in (1, 2, 3)
    ),
    *("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"),
)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    compare(entry, "pooling", dtypes=DTYPES)


def twins(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    grad = x.is_floating_point()
    return x.detach().clone().requires_grad_(grad), x.detach().to("sim").requires_grad_(grad)


def check(function: Any, x: torch.Tensor) -> None:
    """Compare values, indices if any, and gradients."""
    given, ours = twins(x)
    expected, actual = function(given), function(ours)
    if isinstance(expected, tuple):
        assert torch.equal(actual[1].cpu(), expected[1])
        expected, actual = expected[0], actual[0]
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
    if expected.requires_grad:
        seed = torch.randn_like(expected)
        (right,) = torch.autograd.grad(expected, given, seed)
        (grad,) = torch.autograd.grad(actual, ours, seed.to("sim"))
        torch.testing.assert_close(grad.cpu(), right)
    assert not on_cpu("pooling")


WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1, "padding": 1, "ceil_mode": True},
    {"kernel_size": (3, 5), "stride": (2, 3), "padding": (1, 2), "ceil_mode": True},
    {"kernel_size": 7, "stride": 4, "padding": 3},
]


@pytest.mark.parametrize("options", WINDOWS, ids=str)
@pytest.mark.parametrize("shape", [(2, 3, 11, 13), (3, 11, 150), (1, 2, 14, 300)], ids=str)
def test_two_dimensions(options: dict[str, Any], shape: tuple[int, ...], counted: Any) -> None:
    x = torch.randn(shape, dtype=torch.float64)
    check(lambda t: F.max_pool2d(t, **options, return_indices=True), x)
    check(lambda t: F.max_pool2d(t, **{**options, "padding": 1}, dilation=2, return_indices=True), x)
    for extra in ({}, {"count_include_pad": False}, {"divisor_override": 5}):
        check(lambda t, extra=extra: F.avg_pool2d(t, **options, **extra), x)


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_three_dimensions(ceil_mode: bool, counted: Any) -> None:
    x = torch.randn(2, 3, 7, 9, 11, dtype=torch.float64)
    windows = {"kernel_size": (2, 3, 3), "stride": (1, 2, 3), "padding": (1, 1, 0), "ceil_mode": ceil_mode}
    check(lambda t: F.max_pool3d(t, **windows, return_indices=True), x)
    check(lambda t: F.max_pool3d(t, 2, dilation=(1, 2, 1), return_indices=True), x[0])
    for extra in ({}, {"count_include_pad": False}, {"divisor_override": 3}):
        check(lambda t, extra=extra: F.avg_pool3d(t, **windows, **extra), x)


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (11, 13), (17, 2)], ids=str)
def test_adaptive(size: tuple[int, int], counted: Any) -> None:
    x = torch.randn(2, 3, 11, 13, dtype=torch.float64)
    check(lambda t: F.adaptive_avg_pool2d(t, size), x)
    check(lambda t: F.adaptive_max_pool2d(t, size, return_indices=True), x)
    deep = torch.randn(2, 3, 5, 6, 70, dtype=torch.float64)
    check(lambda t: F.adaptive_avg_pool3d(t, (2, *size)), deep)
    check(lambda t: F.adaptive_max_pool3d(t, (2, *size), return_indices=True), deep)
    # torch computes size 1 as a mean, so the operator is also called directly.
    for function in (torch.ops.aten._adaptive_avg_pool2d, lambda t, s: F.adaptive_avg_pool2d(t, s)):
        check(lambda t, function=function: function(t, size), torch.randn(2, 3, 40, 50, dtype=torch.float64))


def test_fractional(counted: Any) -> None:
    x = torch.randn(2, 3, 13, 17, dtype=torch.float64)
    samples = torch.rand(2, 3, 2, dtype=torch.float64)
    check(
        lambda t: F.fractional_max_pool2d(t, (2, 3), (5, 7), return_indices=True, _random_samples=samples.to(t.device)),
        x,
    )
    deep, samples = torch.randn(2, 3, 6, 13, 17, dtype=torch.float64), torch.rand(2, 3, 3, dtype=torch.float64)
    check(
        lambda t: F.fractional_max_pool3d(t, 2, (3, 5, 7), return_indices=True, _random_samples=samples.to(t.device)),
        deep,
    )


def test_unpooling_inverts(counted: Any) -> None:
    x = torch.randn(2, 3, 8, 10)
    values, places = F.max_pool2d(x, 2, return_indices=True)
    ours = F.max_unpool2d(values.to("sim"), places.to("sim"), 2)
    assert torch.equal(ours.cpu(), F.max_unpool2d(values, places, 2))
    assert not on_cpu("pooling")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int32, torch.uint8], ids=str)
def test_dtypes_and_special_values(dtype: torch.dtype, counted: Any) -> None:
    x = torch.testing.make_tensor(2, 3, 12, 70, dtype=dtype, device="cpu")
    if dtype.is_floating_point:
        x[0, 0, 3, 4:7] = float("nan")
        x[0, 1] = float("-inf")
        x[1, 0, 2, 5] = float("inf")
    for options in WINDOWS:
        expected, actual = (F.max_pool2d(t, **options, return_indices=True) for t in (x, x.to("sim")))
        torch.testing.assert_close(actual[0].cpu(), expected[0], equal_nan=True)
        assert torch.equal(actual[1].cpu(), expected[1])
    if dtype.is_floating_point:
        exact = F.avg_pool2d(x.double(), 3, 2, 1)
        torch.testing.assert_close(F.avg_pool2d(x.to("sim"), 3, 2, 1).cpu(), exact.to(dtype), equal_nan=True)
    assert not on_cpu("pooling")


def test_layouts(counted: Any) -> None:
    x = torch.randn(2, 5, 12, 14, dtype=torch.float64)
    for view in (
        x.contiguous(memory_format=torch.channels_last),
        x.transpose(2, 3),
        x[:, ::2],
        x[:, :, 1:, ::3],
        x[:1].expand(4, 5, 12, 14),
    ):
        expected, actual = (F.max_pool2d(t, 3, 2, 1) for t in (view, _same_strides(view)))
        assert torch.equal(actual.cpu(), expected)
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(F.avg_pool2d(_same_strides(view), 2).cpu(), F.avg_pool2d(view, 2))
    empty = torch.empty(0, 3, 8, 8)
    assert F.max_pool2d(empty.to("sim"), 2).shape == (0, 3, 4, 4)
    assert F.avg_pool2d(empty.to("sim"), 2).shape == (0, 3, 4, 4)
    assert not on_cpu("pooling")


def _same_strides(view: torch.Tensor) -> torch.Tensor:
    whole = torch.as_strided(view, (view.untyped_storage().nbytes() // view.element_size(),), (1,), 0)
    return whole.to("sim").as_strided(view.shape, view.stride(), view.storage_offset())


def test_errors_are_torchs_own() -> None:
    x = torch.ones(1, 1, 4, 4, device="sim")
    with pytest.raises(RuntimeError, match="pad should be at most half"):
        F.max_pool2d(x, 2, padding=2)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.avg_pool2d(x, 7)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.max_pool3d(x[None], 7)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        F.avg_pool2d(x, 2, divisor_override=0)


def test_gradients_are_the_same_every_time() -> None:
    x = torch.randn(4, 8, 30, 30, device="sim", requires_grad=True)
    runs = []
    for _ in range(3):
        (grad,) = torch.autograd.grad(F.max_pool2d(x, 5, 1, 2).square().sum(), x)
        runs.append(grad.cpu())
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_adaptive_average_of_an_empty_batch(rank: int) -> None:
    function = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)[rank - 1]
    x = torch.randn(0, 3, *[8] * rank, device="sim", requires_grad=True)
    hardpoint.reset_counters()
    function(x, 5).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == x.shape
    assert not on_cpu("pooling")


def test_vendor_kernel_runs_first() -> None:
    seen = []
    with hardpoint.kernel("avg_pool2d")(
        lambda out, *rest: seen.append([tuple(r) if i in (1, 2, 3) else r for i, r in enumerate(rest)][1:])
    ):
        F.avg_pool2d(torch.ones(1, 1, 4, 4, device="sim"), 2, padding=1)
    assert seen == [[(2, 2), (2, 2), (1, 1), True, 0]]


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_unpooling_is_not_deterministic(dims: int) -> None:
    x = torch.ones(1, 1, *[4] * dims, device="sim")
    module = getattr(torch.nn, f"MaxUnpool{dims}d")(2)
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match=f"max_unpooling{max(dims, 2)}d_forward_out does not have a determin"):
            module(x, torch.zeros_like(x, dtype=torch.int64))
    finally:
        torch.use_deterministic_algorithms(False)


def test_volumes_without_a_batch_keep_their_layout() -> None:
    x = torch.randn(1, 4, 5, 6, 5).contiguous(memory_format=torch.channels_last_3d).squeeze(0)
    for ours, right in zip(
        F.max_pool3d(x.to("sim"), 2, return_indices=True), F.max_pool3d(x, 2, return_indices=True), strict=True
    ):
        assert ours.stride() == right.stride()
        assert torch.equal(ours.cpu(), right)


@pytest.mark.parametrize("rank", [2, 3])
def test_fractional_pooling_refuses_wrong_samples(rank: int) -> None:
    function = getattr(F, f"fractional_max_pool{rank}d")
    x = torch.randn(2, 3, *[6] * rank, device="sim")
    for samples, message in (
        (torch.rand(0, 3, rank), "size.0. no less then input batch size"),
        (torch.rand(2, 4, rank), "size.1. equals to input channel size"),
        (torch.rand(2, 3, rank + 1), f"size.2. equals to {rank}"),
        (torch.rand(2, 3, rank).double(), "same dtype as input"),
    ):
        with pytest.raises(RuntimeError, match=f"Expect _random_samples.*{message}"):
            function(x, 2, [2] * rank, _random_samples=samples.to("sim"))
