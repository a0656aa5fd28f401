"""Selection by value against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo import INDEX, on_cpu

import hardpoint

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
SHAPES = [(), (1,), (0,), (7,), (3, 0, 2), (33, 70), (4, 1, 6), (2, 3, 4, 5), (10_000,), (3, 5000), (5000, 3)]


def assert_same(function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    """Compare with the CPU; nothing may run in the CPU tier."""
    expected = function(*tensors)
    moved = [t.to("sim") for t in tensors]
    hardpoint.reset_counters()
    actual = function(*moved)
    assert not on_cpu(*INDEX)
    if isinstance(expected, torch.Tensor):
        actual, expected = (actual,), (expected,)
    for a, e in zip(actual, expected, strict=True):
        assert a.dtype == e.dtype
        assert a.device.type == "sim"
        torch.testing.assert_close(a.cpu(), e, rtol=0, atol=0, equal_nan=True)


def sparse(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.testing.make_tensor(shape, dtype=dtype, device="cpu") * (torch.rand(shape) > 0.6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nonzero_and_masks(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x, mask = sparse(shape, dtype), torch.rand(shape) > 0.5
    assert_same(torch.nonzero, x)
    assert_same(lambda x: torch.nonzero(x.transpose(0, -1)) if x.dim() else torch.nonzero(x), x)
    assert_same(lambda x: torch.nonzero_static(x, size=5, fill_value=-7), x)
    # As torch's meta function says of accelerators.
    assert torch.nonzero_static(x.to("sim"), size=5).stride() == (1, 5)
    assert_same(lambda x: torch.count_nonzero(x), x)
    assert_same(lambda x, m: x.masked_select(m), x, mask)
    assert_same(lambda x, m: x.masked_fill(m, 1), x, mask)
    assert_same(lambda x, m: x.masked_fill(m, x.new_ones(())), x, mask)
    assert_same(lambda x, m, s: x.masked_scatter(m, s), x, mask, sparse((x.numel() + 3,), dtype))
    if x.dim() > 1:
        assert_same(lambda x, m: x.transpose(0, 1).clone().transpose(0, 1).masked_fill_(m, 1), x, mask)
        assert_same(lambda x, m: x.clone()[:, ::2].masked_fill_(m, 0), x, mask[:, :1])
        assert_same(lambda x, m: x.masked_select(m), x, mask[..., :1])
        assert_same(lambda x, m: x.masked_select(m), x[..., :1], mask)
        assert_same(
            lambda x, m, s: x.t().masked_scatter_(m, s).t() if x.dim() == 2 else x,
            x.clone(),
            mask.t() if x.dim() == 2 else mask,
            x.flatten(),
        )
        assert_same(lambda x: torch.count_nonzero(x, 1), x)


def test_special_values() -> None:
    x = torch.tensor([0.0, -0.0, float("nan"), float("inf"), 1e-45, 1.0])
    assert_same(torch.nonzero, x)
    assert_same(torch.nonzero, x.half())
    assert_same(torch.count_nonzero, x.bfloat16())
    assert_same(lambda x: x.masked_fill(x > 0, float("nan")), x)
    assert_same(lambda x: torch.unique_consecutive(x, return_counts=True), x)


def test_nonzero_has_the_strides_of_the_cpu() -> None:
    x = sparse((4, 6, 5), torch.float32)
    assert torch.nonzero(x.to("sim")).stride() == torch.nonzero(x).stride()


def test_isin_of_a_number() -> None:
    x = torch.tensor([[1, 2], [3, 4]], device="sim")
    for number, found in ((3, True), (5, False)):
        assert torch.isin(number, x).tolist() is found
        assert torch.isin(number, x, invert=True).tolist() is not found
        out = torch.empty(0, dtype=torch.bool, device="sim")
        assert torch.isin(number, x, out=out).tolist() is found
    assert torch.isin(3, x).shape == ()


def test_outputs() -> None:
    x = sparse((6, 5), torch.float32)
    d = x.to("sim")
    out = torch.empty(0, dtype=torch.int64, device="sim")
    assert torch.nonzero(d, out=out) is out
    assert torch.equal(out.cpu(), x.nonzero())
    chosen = torch.empty(0, device="sim")
    assert torch.masked_select(d, d > 0, out=chosen) is chosen
    assert torch.equal(chosen.cpu(), x.masked_select(x > 0))
    with pytest.raises(IndexError, match="aten::masked_scatter_: index 2 is out of bounds"):
        d.masked_scatter(torch.ones_like(d, dtype=torch.bool), torch.ones(2, device="sim")).cpu()
    with pytest.raises(RuntimeError, match="must match the size"):
        d.masked_fill_(torch.ones(4, dtype=torch.bool, device="sim"), 1)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_complex], ids=str)
@pytest.mark.parametrize("shape", [(0,), (1,), (40, 30), (9000,)], ids=str)
def test_unique(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    x = torch.randint(0, 2 if dtype is torch.bool else 50, shape).to(dtype)
    for inverse in (False, True):
        for counts in (False, True):
            options = {"return_inverse": inverse, "return_counts": counts}
            assert_same(lambda x, o=options: torch.unique(x, **o), x)
            assert_same(lambda x, o=options: torch.unique_consecutive(x // 5 if x.dtype != torch.bool else x, **o), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_repeat_interleave(dtype: torch.dtype) -> None:
    for n in (0, 1, 50, 9000):
        repeats = torch.randint(0, 4, (n,), dtype=dtype)
        assert_same(torch.repeat_interleave, repeats)
        assert_same(lambda r: torch.repeat_interleave(r, output_size=int(r.sum())), repeats)
    x = torch.randn(4, 3)
    assert_same(lambda x, r: x.repeat_interleave(r, dim=0), x, torch.tensor([0, 2, 1, 3], dtype=dtype))
    assert_same(lambda x: x.repeat_interleave(2, dim=1), x)
    with pytest.raises(RuntimeError, match="repeats can not be negative"):
        torch.repeat_interleave(torch.tensor([1, -1], device="sim"))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if not d.is_complex and d is not torch.bool], ids=str)
def test_sorted_rows(dtype: torch.dtype) -> None:
    rows = torch.testing.make_tensor((3, 200), dtype=dtype, device="cpu").sort().values
    values = torch.testing.make_tensor((3, 50), dtype=dtype, device="cpu")
    values[:, :10] = rows[:, 5:15]
    order = torch.stack([torch.randperm(200) for _ in range(3)])
    shuffled = torch.empty_like(rows).scatter_(1, order, rows)
    for right in (False, True):
        for narrow in (False, True):
            options: dict[str, Any] = {"right": right, "out_int32": narrow}
            assert_same(lambda r, v, o=options: torch.searchsorted(r, v, **o), rows, values)
            assert_same(lambda r, v, o=options: torch.searchsorted(r[0], v, **o), rows, values)
            assert_same(lambda r, v, s, o=options: torch.searchsorted(r, v, sorter=s, **o), shuffled, values, order)
            assert_same(lambda r, v, o=options: torch.bucketize(v, r[1], **o), rows, values)
            assert_same(lambda r, o=options: torch.bucketize(3, r[1], **o), rows)
            assert_same(lambda r, o=options: torch.searchsorted(r[1], 3, **o), rows)
    assert_same(lambda r, v: torch.searchsorted(r, v, side="right"), rows, values)
    assert_same(lambda r, v: torch.searchsorted(r[:, :0], v), rows, values)
    assert_same(lambda r, v: torch.isin(v, r), rows, values)
    assert_same(lambda r, v: torch.isin(v, r[0, :7], invert=True), rows, values)
    assert_same(lambda r, v: torch.isin(v.t(), r[:, 0]), rows, values)
    assert_same(lambda r: torch.isin(r, 3), rows)
    out = torch.empty(0, dtype=torch.int64, device="sim")
    torch.searchsorted(rows.to("sim"), values.to("sim"), out=out)
    assert torch.equal(out.cpu(), torch.searchsorted(rows, values))


def test_sorted_rows_with_nan() -> None:
    rows = torch.tensor([0.0, 1.0, float("nan"), float("nan")])
    values = torch.tensor([float("nan"), float("inf"), -1.0, 1.0])
    for right in (False, True):
        assert_same(lambda r, v, right=right: torch.searchsorted(r, v, right=right), rows, values)


def test_counting() -> None:
    x = torch.randint(0, 300, (20_000,))
    assert_same(torch.bincount, x)
    assert_same(lambda x: torch.bincount(x, minlength=1000), x.int())
    assert_same(lambda x: torch.bincount(x), x[:0])
    weights = torch.randn(20_000, dtype=torch.float64)
    actual = torch.bincount(x.to("sim"), weights.to("sim")).cpu()
    torch.testing.assert_close(actual, torch.bincount(x, weights))
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.bincount(torch.tensor([1, -1], device="sim"))
    for dtype in (torch.float32, torch.float64):
        y = torch.randn(5000, dtype=dtype)
        assert_same(lambda y: torch.histc(y, 37), y)
        assert_same(lambda y: torch.histc(y, 10, -1, 1.5), y)
        assert_same(lambda y: torch.histc(y, 4, 0, 0), torch.full((5,), 2.0, dtype=dtype))
    # The CPU has no histogram of integers; programs use it on accelerators, as transformers for mixtures of experts.
    for dtype in (torch.int64, torch.int32, torch.uint8):
        y = torch.tensor([0, 1, 2, 2, 3, 9, 9, 17], dtype=dtype, device="sim")
        for arguments in ((4, 0, 3), (3, 1, 10), (5,), (2, 4, 4)):
            counts = torch.histc(y, *arguments)
            assert counts.dtype == dtype
            assert counts.tolist() == torch.histc(y.cpu().double(), *arguments).tolist()
    assert_same(lambda i: torch.nn.functional.one_hot(i, 300), x[:50])


@pytest.mark.parametrize("offset", [-9, -3, -1, 0, 1, 2, 5, 9])
@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (0, 3), (3, 0), (1, 1), (200, 150)], ids=str)
def test_triangles(offset: int, shape: tuple[int, int]) -> None:
    for function in (torch.tril_indices, torch.triu_indices):
        for dtype in (torch.int64, torch.int32):
            hardpoint.reset_counters()
            actual = function(*shape, offset, dtype=dtype, device="sim")
            assert not on_cpu(*INDEX)
            assert torch.equal(actual.cpu(), function(*shape, offset, dtype=dtype))
