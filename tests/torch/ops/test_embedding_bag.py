"""Embedding bags, forward and backward, against the CPU."""

from __future__ import annotations

import pytest
import torch
from opinfo import INDEX, on_cpu

import hardpoint


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("width", [1, 16, 200])
@pytest.mark.parametrize("index", [torch.int64, torch.int32], ids=str)
def test_bags(mode: str, padding: int | None, width: int, index: torch.dtype) -> None:
    weight = torch.randn(20, width, dtype=torch.float64)
    indices = torch.randint(0, 20, (60,), dtype=index)
    offsets = torch.tensor([0, 0, 7, 30, 30, 59, 60], dtype=index)
    samples = torch.randn(60, dtype=torch.float64) if mode == "sum" else None
    results = []
    for device in ("cpu", "sim"):
        w = weight.clone().to(device).requires_grad_()
        s = None if samples is None else samples.clone().to(device).requires_grad_()
        for last in (False, True):
            hardpoint.reset_counters()
            out = torch.nn.functional.embedding_bag(
                indices.to(device),
                w,
                offsets.to(device),
                mode=mode,
                per_sample_weights=s,
                padding_idx=padding,
                include_last_offset=last,
            )
            (out * out).sum().backward()
            assert not on_cpu(*INDEX)
            results.append(out)
        results += [w.grad] + ([] if s is None else [s.grad])
    half = len(results) // 2
    for ours, theirs in zip(results[half:], results[:half], strict=True):
        torch.testing.assert_close(ours.cpu(), theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_low_precision_is_summed_in_float(dtype: torch.dtype) -> None:
    weight, indices = torch.randn(50, 33).to(dtype), torch.randint(0, 50, (8, 100))
    actual = torch.nn.functional.embedding_bag(indices.to("sim"), weight.to("sim"), mode="sum")
    exact = torch.nn.functional.embedding_bag(indices, weight.double(), mode="sum")
    torch.testing.assert_close(actual.cpu(), exact.to(dtype), rtol=1e-2 if dtype != torch.float32 else 1e-5, atol=1e-4)


def test_an_index_out_of_range() -> None:
    with pytest.raises(IndexError, match=r"aten::_embedding_bag.*: index 9 is out of bounds for dimension with size 4"):
        torch.nn.functional.embedding_bag(torch.tensor([[1, 9]], device="sim"), torch.ones(4, 3, device="sim")).cpu()


@pytest.mark.parametrize("norm", [2.0, 1.0, 3.0])
def test_rows_are_shortened(norm: float) -> None:
    weight, indices = torch.randn(10, 6, dtype=torch.float64) * 3, torch.tensor([[1, 4], [4, 9]])
    expected, actual = weight.clone(), weight.to("sim")
    torch.embedding_renorm_(expected, indices, 1.5, norm)
    hardpoint.reset_counters()
    torch.embedding_renorm_(actual, indices.to("sim"), 1.5, norm)
    assert not on_cpu(*INDEX)
    torch.testing.assert_close(actual.cpu(), expected)


def test_max_norm_with_int32_indices() -> None:
    weight = torch.arange(1.0, 13).view(4, 3)
    indices = torch.tensor([0, 2, 2], dtype=torch.int32)
    results = []
    for device in ("cpu", "sim"):
        table = weight.to(device, copy=True)
        torch.embedding_renorm_(table, indices.to(device), 2.0, 2.0)
        results.append(table.cpu())
    torch.testing.assert_close(results[1], results[0])
