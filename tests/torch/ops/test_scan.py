"""Cumulative sums, products and extrema."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo import DTYPES, compare, entries, on_cpu

import hardpoint

NAMES = ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "cumulative_trapezoid")


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries(*NAMES))
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, "scan", index_result=1, limit=8)


SCANS: dict[str, Callable[..., Any]] = {
    "cumsum": torch.cumsum,
    "cumprod": torch.cumprod,
    "logcumsumexp": torch.logcumsumexp,
    "cummax": torch.cummax,
    "cummin": torch.cummin,
}
SHAPES = [(), (1,), (0,), (3, 0, 2), (700,), (40, 300), (300, 40), (3, 50, 4), (2, 1000, 150)]


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_along_every_dimension(name: str, shape: tuple[int, ...]) -> None:
    base = torch.randn(shape)
    if name == "cumprod":
        base = base.sign() * (1 + 0.01 * base)  # keeps products of hundreds of elements in range
    views = [(base, base.to("sim"))]
    if base.dim() > 1:
        views.append((base.transpose(0, -1), base.to("sim").transpose(0, -1)))
    for given, device in views:
        for dim in range(-given.dim(), max(given.dim(), 1)):
            hardpoint.reset_counters()
            actual = SCANS[name](device, dim)
            assert not on_cpu("scan")
            if isinstance(actual, torch.Tensor):
                exact = SCANS[name](given.double(), dim).float()
                torch.testing.assert_close(actual.cpu(), exact, rtol=2e-6, atol=2e-5)
            else:
                for ours, right in zip(actual, SCANS[name](given, dim), strict=True):
                    assert torch.equal(ours.cpu(), right)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype: torch.dtype) -> None:
    given = torch.randint(0, 3, (30, 400)).to(dtype)
    device = given.to("sim")
    hardpoint.reset_counters()
    for dim in (0, 1):
        # The device and the CPU both sum 16-bit floats in float32, so integer values are exact.
        torch.testing.assert_close(device.cumsum(dim).cpu(), given.cumsum(dim))
        torch.testing.assert_close(device.cumprod(dim).cpu(), given.cumprod(dim))
        torch.testing.assert_close(
            device.cumsum(dim, dtype=torch.float64).cpu(), given.cumsum(dim, dtype=torch.float64)
        )
        for ours, right in zip(device.cummax(dim), given.cummax(dim), strict=True):
            assert torch.equal(ours.cpu(), right)
    assert not on_cpu("scan")


def test_special_values() -> None:
    nan, inf = math.nan, math.inf
    rows = [
        [1, nan, 2, nan, 3],
        [-inf, -inf, 1, inf, 2],
        [inf, 1, -inf, 0, 5],
        [-0.0, 0.0, -0.0, 0.0, 1],
        [3, 3, 2, 3, 3],
    ]
    x = torch.tensor(rows)
    for given in (x, x.t().contiguous(), x.repeat(1, 200), x.repeat(200, 1)):
        device = given.to("sim")
        for dim in (0, 1):
            for scan in SCANS.values():
                actual, expected = scan(device, dim), scan(given, dim)
                if isinstance(actual, torch.Tensor):
                    actual, expected = (actual,), (expected,)
                for ours, right in zip(actual, expected, strict=True):
                    torch.testing.assert_close(ours.cpu(), right, equal_nan=True)


def test_in_place_and_out() -> None:
    x = torch.randn(20, 300)
    device = x.to("sim")
    device.cumsum_(1)
    torch.testing.assert_close(device.cpu(), x.cumsum(1))
    device = x.to("sim")
    device[:, ::2].cumsum_(0)
    torch.testing.assert_close(device[:, ::2].cpu(), x[:, ::2].cumsum(0))
    assert torch.equal(device[:, 1::2].cpu(), x[:, 1::2])
    out = torch.empty(0, device="sim")
    for scan in (torch.cumsum, torch.logcumsumexp):
        assert scan(x.to("sim"), 0, out=out) is out
        torch.testing.assert_close(out.cpu(), scan(x, 0), rtol=1e-5, atol=1e-5)
    places = torch.empty(0, dtype=torch.int64, device="sim")
    torch.cummin(x.to("sim"), 1, out=(out, places))
    assert torch.equal(out.cpu(), x.cummin(1).values)
    assert torch.equal(places.cpu(), x.cummin(1).indices)


def test_long_sums_are_accurate() -> None:
    x = torch.full((1_000_000,), 0.1)
    exact = torch.arange(1, 1_000_001, dtype=torch.float64) * float(x[0])
    torch.testing.assert_close(x.to("sim").cumsum(0).cpu(), exact.float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(
        x.view(-1, 2).to("sim").cumsum(0)[:, 0].cpu(), exact[:500_000].float(), rtol=1e-6, atol=0
    )
