"""Interpolation and grid sampling against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from opinfo import compare, entries, on_cpu

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.uint8)
ENTRIES = entries(
    *("nn.functional.interpolate", "nn.functional.upsample_nearest", "nn.functional.upsample_bilinear"),
    "_upsample_bilinear2d_aa",
)
GRIDS = entries("nn.functional.grid_sample", "grid_sampler_2d", "grid_sampler_3d")


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    compare(entry, "resampling", dtypes=DTYPES)


@pytest.mark.slow
@pytest.mark.parametrize("entry", GRIDS)
def test_grids_against_the_cpu(entry: Any) -> None:
    # A position is a coordinate times half the size, which scales its rounding error.
    compare(entry, "grid_sample", dtypes=DTYPES, single=1e-4)


MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}
TARGETS: list[dict[str, Any]] = [
    {"scale_factor": 2},
    {"scale_factor": 0.4},
    {"scale_factor": 1.7},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
    {"size": 1},
    {"size": 23},
    {"size": 9},
]
SPATIAL = {1: (9,), 2: (9, 7), 3: (5, 9, 7)}


@pytest.mark.parametrize(("rank", "mode"), [(r, m) for r in MODES for m in MODES[r]])
def test_sizes_and_gradients(rank: int, mode: str, counted: Any) -> None:
    x = torch.randn(2, 3, *SPATIAL[rank], dtype=torch.float64)
    for target in TARGETS:
        for align in (None, False, True) if "nearest" not in mode else (None,):
            check(lambda t, o=target, a=align: F.interpolate(t, **o, mode=mode, align_corners=a), x, "resampling")


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialiased(mode: str, counted: Any) -> None:
    x = torch.randn(2, 3, 19, 31, dtype=torch.float64)
    for size in ((5, 7), (19, 12), (40, 50), (1, 1)):
        for align in (False, True):
            check(
                lambda t, s=size, a=align: F.interpolate(t, s, mode=mode, align_corners=a, antialias=True),
                x,
                "resampling",
            )


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes_are_equal(mode: str, antialias: bool, counted: Any) -> None:
    """torch computes bytes in integer arithmetic, so every element must be equal."""
    targets: list[dict[str, Any]] = [{"size": s} for s in ((5, 7), (19, 12), (40, 300), (13, 31), (1, 2), (19, 31))]
    targets += [{"scale_factor": f} for f in (0.3, 1.7, (2.0, 0.51), (1.02, 1.0))]
    for target in targets:
        for align in (False, True):
            options = {**target, "mode": mode, "align_corners": align, "antialias": antialias}
            for channels, layout in ((1, torch.contiguous_format), (3, torch.channels_last), (6, torch.channels_last)):
                x = torch.randint(0, 256, (2, channels, 19, 31), dtype=torch.uint8).to(memory_format=layout)
                expected, actual = F.interpolate(x, **options), F.interpolate(x.to("sim"), **options)
                assert actual.dtype is torch.uint8
                assert torch.equal(actual.cpu(), expected), options
    flat = torch.randint(0, 256, (1, 1, 4, 3000), dtype=torch.uint8)  # hundreds of filter taps
    small = F.interpolate(flat.to("sim"), (2, 9), mode=mode, antialias=antialias)
    assert torch.equal(small.cpu(), F.interpolate(flat, (2, 9), mode=mode, antialias=antialias))
    assert not on_cpu("resampling")


def check(function: Any, x: torch.Tensor, family: str) -> None:
    given, ours = x.clone().requires_grad_(), x.to("sim").requires_grad_()
    expected, actual = function(given), function(ours)
    torch.testing.assert_close(actual.cpu(), expected)
    seed = torch.randn_like(expected)
    (right,) = torch.autograd.grad(expected, given, seed)
    (grad,) = torch.autograd.grad(actual, ours, seed.to("sim"))
    torch.testing.assert_close(grad.cpu(), right)
    assert not on_cpu(family)


def test_wide_rows(counted: Any) -> None:
    # Rows longer than the kernels cache.
    for width, target in ((3000, 3500), (3000, 100), (30, 2500)):
        x = torch.randn(1, 2, 3, width, dtype=torch.float64)
        for mode in ("nearest", "bilinear", "bicubic"):
            check(lambda t, m=mode, s=(4, target): F.interpolate(t, s, mode=m), x, "resampling")


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dtypes_and_layouts(dtype: torch.dtype, counted: Any) -> None:
    x = torch.testing.make_tensor(2, 4, 6, 10, dtype=dtype, device="cpu")
    last = x.contiguous(memory_format=torch.channels_last)
    for given, ours in ((x, x.to("sim")), (last, last.to("sim")), (x.transpose(2, 3), x.to("sim").transpose(2, 3))):
        expected, actual = (F.interpolate(t, scale_factor=2) for t in (given, ours))
        assert torch.equal(actual.cpu(), expected)
        assert actual.stride() == expected.stride()
        if dtype.is_floating_point:
            exact = F.interpolate(given.double(), (9, 9), mode="bilinear").to(dtype)
            torch.testing.assert_close(F.interpolate(ours, (9, 9), mode="bilinear").cpu(), exact)
    assert not on_cpu("resampling")


def test_low_precision_gradients_are_summed_in_single(counted: Any) -> None:
    x = torch.randn(2, 2, 4, 4).bfloat16().to("sim").requires_grad_()
    y = F.interpolate(x, (64, 64), mode="bilinear")
    seed = torch.rand(y.shape).bfloat16()
    (grad,) = torch.autograd.grad(y, x, seed.to("sim"))
    twin = x.detach().cpu().double().requires_grad_()
    (exact,) = torch.autograd.grad(F.interpolate(twin, (64, 64), mode="bilinear"), twin, seed.double())
    torch.testing.assert_close(grad.cpu(), exact.bfloat16())


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_grids(mode: str, padding: str, align: bool, counted: Any) -> None:
    options = {"mode": mode, "padding_mode": padding, "align_corners": align}
    cases = [((2, 3, 7, 9), (2, 5, 6, 2)), ((1, 2, 1, 4), (1, 3, 3, 2))]
    if mode != "bicubic":
        cases.append(((2, 3, 4, 5, 6), (2, 3, 4, 5, 3)))
    for shape, places in cases:
        x, grid = torch.randn(shape, dtype=torch.float64), 1.7 * torch.randn(places, dtype=torch.float64)
        given = (x.clone().requires_grad_(), grid.clone().requires_grad_())
        ours = tuple(t.detach().to("sim").requires_grad_() for t in given)
        expected, actual = F.grid_sample(*given, **options), F.grid_sample(*ours, **options)
        torch.testing.assert_close(actual.cpu(), expected)
        seed = torch.randn_like(expected)
        right = torch.autograd.grad(expected, given, seed)
        grads = torch.autograd.grad(actual, ours, seed.to("sim"))
        for a, b in zip(grads, right, strict=True):
            torch.testing.assert_close(a.cpu(), b)
    assert not on_cpu("grid_sample")


def test_grids_that_are_no_numbers_touch_nothing(counted: Any) -> None:
    x = torch.randn(1, 1, 4, 4)
    grid = torch.tensor([[float("nan"), 0.0], [float("inf"), 0.0], [1e30, -1e30], [0.0, 0.0]]).reshape(1, 1, 4, 2)
    for padding in ("zeros", "border", "reflection"):
        for mode in ("bilinear", "nearest", "bicubic"):
            ours = F.grid_sample(
                x.to("sim"), grid.to("sim"), mode=mode, padding_mode=padding, align_corners=False
            ).cpu()
            right = F.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False)
            torch.testing.assert_close(ours[..., 3], right[..., 3])
    assert not on_cpu("grid_sample")
