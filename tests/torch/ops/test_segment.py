"""Segment reductions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu

import hardpoint


@pytest.mark.parametrize("entry", entries("_segment_reduce"))
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, "segment", limit=8)


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_segments(reduce: str, initial: float | None, dtype: torch.dtype) -> None:
    rows = torch.randn(10, 3, dtype=dtype)
    rows[4], rows[2, 0], rows[7, 1] = rows[5], 0, math.nan
    columns = torch.randint(0, 3, (70, 9, 2)).to(dtype).transpose(0, 2)
    cases = [
        (rows, [3, 0, 4, 3], 0),
        (columns, [[3, 0, 6], [1, 7, 1]], 1),
        (torch.randn(500, dtype=dtype), [400, 100], 0),
    ]
    hardpoint.reset_counters()
    for data, lengths, axis in cases:
        results = []
        for device in ("cpu", "sim"):
            given = data.to(device).detach().requires_grad_()
            out = torch.segment_reduce(
                given, reduce, lengths=torch.tensor(lengths, device=device), axis=axis, initial=initial
            )
            torch.manual_seed(1)
            seed = torch.randn(out.shape, dtype=dtype).to(device)
            results.append([t.detach().cpu() for t in (out, *torch.autograd.grad(out, given, seed))])
        for right, ours in zip(*results, strict=True):
            # Sums of hundreds of elements in another order.
            torch.testing.assert_close(ours, right, equal_nan=True, rtol=1e-5, atol=1e-5)
    assert not on_cpu("segment")


def test_offsets_and_empty_data() -> None:
    data = torch.randn(6, 4)
    offsets = torch.tensor([1, 3, 3, 6])
    actual = torch.segment_reduce(data.to("sim"), "max", offsets=offsets.to("sim"), axis=0)
    assert torch.equal(actual.cpu(), torch.segment_reduce(data, "max", offsets=offsets, axis=0))
    none = torch.empty(0, 4)
    lengths = torch.tensor([0, 0])
    actual = torch.segment_reduce(none.to("sim"), "sum", lengths=lengths.to("sim"))
    assert torch.equal(actual.cpu(), torch.zeros(2, 4))


def test_offsets_outside_of_the_data_touch_nothing_else() -> None:
    data = torch.ones(4, device="sim")
    offsets = torch.tensor([-5, 2, 900], device="sim")
    actual = torch.segment_reduce(data, "sum", offsets=offsets, axis=0, unsafe=True)
    assert actual.tolist() == [2, 2]


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="sum to data"):
        torch.segment_reduce(torch.ones(4, device="sim"), "sum", lengths=torch.tensor([1, 2], device="sim"))
