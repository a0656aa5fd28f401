"""Histograms, unique_dim, hashes and assertions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from opinfo import DTYPES, compare, entries, move, on_cpu

import hardpoint

FAMILIES = ("histogram", "unique", "hash_tensor", "selection")
NAMES = ("histogram", "histogramdd", "histc", "unique", "unique_consecutive", "hash_tensor")


@pytest.mark.parametrize("entry", entries(*NAMES))
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, *FAMILIES, dtypes=(torch.float32, torch.float64, torch.int64, torch.uint8), limit=6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("density", [False, True])
def test_histograms(weighted: bool, density: bool) -> None:
    x = torch.randn(40, 25, dtype=torch.float64)
    x[0, 0], x[1, 1], x[2, 2] = math.nan, 1.0, 3.0
    edges = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0], dtype=torch.float64)
    weight = torch.rand(40, 25, dtype=torch.float64) if weighted else None
    options = {"weight": weight, "density": density}
    sent = move(options, "sim")
    hardpoint.reset_counters()
    for right, ours in (
        (torch.histogram(x, edges, **options), torch.histogram(x.to("sim"), edges.to("sim"), **sent)),
        (
            torch.histogram(x, 7, range=(-1.0, 2.0), **options),
            torch.histogram(x.to("sim"), 7, range=(-1.0, 2.0), **sent),
        ),
    ):
        for a, b in zip(ours, right, strict=True):
            torch.testing.assert_close(a.cpu(), b)
    points = torch.rand(200, 2, dtype=torch.float64)
    options["weight"] = torch.rand(200, dtype=torch.float64) if weighted else None
    right_hist, right_edges = torch.histogramdd(points, [3, 4], **options)
    hist, bins = torch.histogramdd(points.to("sim"), [3, 4], **move(options, "sim"))
    for a, b in zip((hist, *bins), (right_hist, *right_edges), strict=True):
        torch.testing.assert_close(a.cpu(), b)
    assert not on_cpu(*FAMILIES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_different_slices(dtype: torch.dtype, dim: int) -> None:
    x = torch.randint(0, 2, (7, 6, 3)).to(dtype)
    hardpoint.reset_counters()
    for function in (torch.unique, torch.unique_consecutive):
        for given, device in ((x, x.to("sim")), (x.transpose(0, 2), x.to("sim").transpose(0, 2))):
            right = function(given, return_inverse=True, return_counts=True, dim=dim)
            ours = function(device, return_inverse=True, return_counts=True, dim=dim)
            for a, b in zip(ours, right, strict=True):
                assert torch.equal(a.cpu(), b)
    assert not on_cpu(*FAMILIES)


def test_no_slices() -> None:
    for function in (torch.unique, torch.unique_consecutive):
        for shape in ((0,), (0, 3)):
            given = torch.empty(shape)
            right = function(given, return_inverse=True, return_counts=True, dim=0)
            ours = function(given.to("sim"), return_inverse=True, return_counts=True, dim=0)
            assert all(torch.equal(a.cpu(), b) for a, b in zip(ours, right, strict=True))
        with pytest.raises(RuntimeError, match="0 sized dimensions"):
            function(torch.empty(3, 0, device="sim"), dim=0)


@pytest.mark.parametrize("values", [[], [0.3], [0.7], [0.5, 0.5]], ids=str)
def test_histograms_of_one_value_or_none(values: list[float]) -> None:
    x = torch.tensor(values)
    for bins in (1, 2, 5):
        for ours, right in zip(torch.histogram(x.to("sim"), bins), torch.histogram(x, bins), strict=True):
            assert torch.equal(ours.cpu(), right)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_hashes(dtype: torch.dtype) -> None:
    x = torch.randn(5, 40, 3).mul(9).to(dtype)
    hardpoint.reset_counters()
    for dim in ([], [0], [1, 2], [-1]):
        for keepdim in (False, True):
            ours = torch.hash_tensor(x.to("sim").transpose(0, 1), dim, keepdim=keepdim)
            right = torch.hash_tensor(x.transpose(0, 1), dim, keepdim=keepdim)
            assert ours.shape == right.shape
            assert ours.cpu().tolist() == right.tolist()
    assert not on_cpu(*FAMILIES)


def test_assertions() -> None:
    for good in (torch.ones(1), torch.tensor(True), torch.tensor([[-3]]), torch.tensor(math.nan)):
        torch._assert_async(good.to("sim"))
    with pytest.raises(RuntimeError, match="single nonzero value, but got zero"):
        torch._assert_async(torch.zeros(1, device="sim"))
    with pytest.raises(RuntimeError, match="the sky is up"):
        torch._assert_async(torch.tensor(False, device="sim"), "the sky is up")
    with pytest.raises(RuntimeError, match="ambiguous"):
        torch._assert_async(torch.ones(2, device="sim"))
