"""Sorting, and operators based on it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from opinfo import DTYPES, compare, entries, on_cpu

import hardpoint

NAMES = ("sort", "argsort", "msort", "topk", "kthvalue", "median", "nanmedian", "mode")


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries(*NAMES))
def test_samples_against_the_cpu(entry: Any) -> None:
    compare(entry, "sort", index_result=0 if entry.name == "argsort" else 1, limit=8)


def make(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Many equal elements; floats include NaN, infinities and both zeros."""
    if not dtype.is_floating_point:
        return torch.testing.make_tensor(shape, dtype=dtype, device="cpu")
    x = torch.randint(-20, 20, shape).to(dtype) / 4
    special = torch.tensor([math.nan, -math.nan, math.inf, -math.inf, -0.0, 0.0], dtype=dtype)
    chosen = torch.randint(0, 60, shape)
    return torch.where(chosen < 6, special[chosen.clamp(max=5)], x)


SHAPES = [(), (1,), (0,), (3, 0), (31,), (33,), (5, 100), (100, 5), (3, 2049), (2, 700, 3), (70_001,)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_stable_order_is_torch_s(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    given = make(shape, dtype)
    device = given.to("sim")
    hardpoint.reset_counters()
    for dim in range(max(1, given.dim())):
        for descending in (False, True):
            values, places = torch.sort(device, dim=dim, descending=descending, stable=True)
            right = torch.sort(given, dim=dim, descending=descending, stable=True)
            assert torch.equal(places.cpu(), right.indices)
            torch.testing.assert_close(values.cpu(), right.values, equal_nan=True, rtol=0, atol=0)
            if dtype.is_floating_point:
                assert torch.equal(
                    values.cpu().signbit() & ~values.cpu().isnan(), right.values.signbit() & ~right.values.isnan()
                )
    assert not on_cpu("sort")


def test_layouts_and_out() -> None:
    x = torch.randn(6, 7, 8)
    for given, device in (
        (x.transpose(0, 2), x.to("sim").transpose(0, 2)),
        (x[:, ::2], x.to("sim")[:, ::2]),
        (x[:1].expand(4, 7, 8), x.to("sim")[:1].expand(4, 7, 8)),
    ):
        for dim in range(3):
            for ours, right in zip(device.sort(dim=dim, stable=True), given.sort(dim=dim, stable=True), strict=True):
                assert torch.equal(ours.cpu(), right)
    values, places = torch.empty(0, device="sim"), torch.empty(0, dtype=torch.int64, device="sim")
    torch.sort(x.to("sim"), 1, out=(values, places))
    assert torch.equal(values.cpu(), x.sort(1).values)
    assert torch.equal(places.cpu(), x.sort(1).indices)
    wide, places = torch.zeros(7, 8, 2, device="sim"), torch.empty(0, dtype=torch.int64, device="sim")
    torch.kthvalue(x.to("sim"), 2, 0, out=(wide[..., 1], places))
    assert torch.equal(wide[..., 1].cpu(), x.kthvalue(2, 0).values)
    assert not wide[..., 0].any()


def test_a_long_row_in_every_dtype_width() -> None:
    for dtype in (torch.float32, torch.float64, torch.int16):
        given = make((300_007,), dtype)
        hardpoint.reset_counters()
        values, places = given.to("sim").sort(stable=True, descending=True)
        right = given.sort(stable=True, descending=True)
        assert torch.equal(places.cpu(), right.indices)
        torch.testing.assert_close(values.cpu(), right.values, equal_nan=True)
        torch.testing.assert_close(given.to("sim").median().cpu(), given.median(), equal_nan=True)
        two = torch.stack([given, given.flip(0)], 1)
        for ours, expected in zip(two.to("sim").sort(dim=0, stable=True), two.sort(dim=0, stable=True), strict=True):
            torch.testing.assert_close(ours.cpu(), expected, equal_nan=True)
        assert not on_cpu("sort")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("k", [1, 5, 100, 1500, 3000])
def test_topk(k: int, dtype: torch.dtype) -> None:
    given = make((4, 3000), dtype)
    for dim, x in ((1, given), (0, given.t().contiguous())):
        for largest in (True, False):
            hardpoint.reset_counters()
            values, places = x.to("sim").topk(k, dim, largest)
            assert not on_cpu("sort")
            expected = x.topk(k, dim, largest).values
            torch.testing.assert_close(values.cpu(), expected, equal_nan=True, rtol=0, atol=0)
            torch.testing.assert_close(x.gather(dim, places.cpu()), expected, equal_nan=True, rtol=0, atol=0)
            assert all(len(set(row)) == k for row in places.movedim(dim, -1).cpu().tolist())
    # Among equal elements, the first ones in a stable order.
    stable = given.sort(dim=1, descending=True, stable=True).indices[:, :k]
    assert torch.equal(given.to("sim").topk(k, 1).indices.cpu(), stable)


def test_topk_errors_are_torchs() -> None:
    x = torch.randn(3, 4, device="sim")
    with pytest.raises(RuntimeError, match="out of range"):
        x.topk(5)
    assert x.topk(0).values.shape == (3, 0)
    with pytest.raises(RuntimeError, match="out of range"):
        x.kthvalue(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int64, torch.int8], ids=str)
def test_medians_modes_and_kth_values(dtype: torch.dtype) -> None:
    for shape in ((1,), (20, 30), (3, 2500), (2, 3, 41)):
        given = make(shape, dtype)
        device = given.to("sim")
        hardpoint.reset_counters()
        for dim in range(given.dim()):
            for keepdim in (False, True):
                for name, arguments in (("median", ()), ("nanmedian", ()), ("mode", ()), ("kthvalue", (1,))):
                    if name == "mode":  # on the CPU, mode treats NaN as ordered, with arbitrary results
                        given, device = given.nan_to_num(0), device.nan_to_num(0)
                    values, places = getattr(torch, name)(device, *arguments, dim, keepdim)
                    right = getattr(torch, name)(given, *arguments, dim, keepdim).values
                    torch.testing.assert_close(values.cpu(), right, equal_nan=True, rtol=0, atol=0)
                    # Among equal elements, any index is valid.
                    where = places.cpu() if keepdim else places.cpu().unsqueeze(dim)
                    told = given.gather(dim, where)
                    torch.testing.assert_close(told.view_as(right), right, equal_nan=True, rtol=0, atol=0)
        torch.testing.assert_close(device.median().cpu(), given.median(), equal_nan=True)
        if dtype.is_floating_point:
            torch.testing.assert_close(device.nanmedian().cpu(), given.nanmedian(), equal_nan=True)
        assert not on_cpu("sort")


def test_mode_into_given_tensors() -> None:
    x = torch.randint(0, 4, (5, 9)).float()
    for keepdim in (False, True):
        right = x.mode(0, keepdim)
        hardpoint.reset_counters()
        for values in (torch.empty(0, device="sim"), torch.zeros(18, device="sim")[::2].reshape(right.values.shape)):
            places = torch.empty(right.indices.shape, dtype=torch.int64, device="sim")
            torch.mode(x.to("sim"), 0, keepdim, out=(values, places))
            assert torch.equal(values.cpu(), right.values)
            told = x.gather(0, places.cpu().view(1, 9)).view_as(right.values)
            assert torch.equal(told, right.values)
        assert not on_cpu("sort")


def test_vendor_kernel_runs_first() -> None:
    seen = []

    def record(values: Any, places: Any, self: Any, *given: Any) -> None:
        seen.append(given)
        raise NotImplementedError

    x = torch.randn(3, 4)
    with hardpoint.kernel("topk")(record), hardpoint.kernel("sort")(record):
        assert torch.equal(x.to("sim").topk(2, 0).values.cpu(), x.topk(2, 0).values)
        assert torch.equal(x.to("sim").sort(1, True).values.cpu(), x.sort(1, True).values)
    assert seen == [(2, 0, True, True), (1, True, False)]
