"""Distances between vectors."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu

import hardpoint

NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf]


@pytest.mark.parametrize("entry", entries("cdist", "nn.functional.pdist"))
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, "distance", limit=8)


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize(
    "shapes", [((5, 3), (4, 3)), ((2, 30, 40), (2, 33, 40)), ((3, 1, 6, 17), (2, 5, 17)), ((1, 5), (1, 5))], ids=str
)
def test_every_pair(p: float, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    given = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]
    device = [x.detach().to("sim").requires_grad_() for x in given]
    hardpoint.reset_counters()
    expected, actual = torch.cdist(given[0], given[1], p), torch.cdist(device[0], device[1], p)
    torch.testing.assert_close(actual.detach().cpu(), expected.detach())
    seed = torch.randn_like(expected)
    right = torch.autograd.grad(expected, given, seed)
    ours = torch.autograd.grad(actual, device, seed.to("sim"))
    for a, b in zip(ours, right, strict=True):
        torch.testing.assert_close(a.cpu(), b)
    low = torch.cdist(device[0].detach().float(), device[1].detach().float(), p)
    # Sums of powers of differences near 0 are inaccurate in float32.
    torch.testing.assert_close(low.cpu(), expected.detach().float(), rtol=2e-4 if p == 0.5 else 1e-5, atol=1e-5)
    assert not on_cpu("distance")


@pytest.mark.parametrize("p", NORMS)
@pytest.mark.parametrize("shape", [(2, 3), (7, 20), (50, 4)], ids=str)
def test_pairs_of_one_matrix(p: float, shape: tuple[int, int]) -> None:
    given = torch.randn(shape[::-1], dtype=torch.float64).t().requires_grad_()
    device = given.detach().to("sim").requires_grad_()
    hardpoint.reset_counters()
    expected, actual = torch.pdist(given, p), torch.pdist(device, p)
    torch.testing.assert_close(actual.detach().cpu(), expected.detach())
    seed = torch.randn_like(expected)
    right, ours = torch.autograd.grad(expected, given, seed), torch.autograd.grad(actual, device, seed.to("sim"))
    torch.testing.assert_close(ours[0].cpu(), right[0])
    assert not on_cpu("distance")


def test_nothing_to_measure() -> None:
    for first, second in (((0, 3), (4, 3)), ((2, 0), (3, 0)), ((0, 2, 3), (0, 5, 3))):
        a, b = torch.randn(first), torch.randn(second)
        assert torch.equal(torch.cdist(a.to("sim"), b.to("sim")).cpu(), torch.cdist(a, b))
    for shape in ((0, 3), (1, 3), (4, 0)):
        x = torch.randn(shape)
        assert torch.equal(torch.pdist(x.to("sim")).cpu(), torch.pdist(x))


def test_special_values_and_equal_rows() -> None:
    x = torch.randn(6, 20, dtype=torch.float64)
    x[1], x[2, 3], x[3, 4] = x[0], math.nan, math.inf
    for p in NORMS:
        actual, expected = torch.cdist(x.to("sim"), x.to("sim"), p).cpu(), torch.cdist(x, x, p)
        torch.testing.assert_close(actual, expected, equal_nan=True)


def test_errors_are_torchs() -> None:
    with pytest.raises(RuntimeError, match="must have the same number of columns"):
        torch.cdist(torch.randn(2, 3, device="sim"), torch.randn(2, 4, device="sim"))
