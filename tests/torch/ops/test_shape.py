"""Concatenation, flips, rolls, triangles and sliding windows against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu

import hardpoint

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int16, torch.uint8, torch.bool, torch.complex64, torch.complex128),
)
ENTRIES = entries(
    *("cat", "stack", "hstack", "vstack", "dstack", "column_stack", "flip", "fliplr", "flipud", "roll", "rot90"),
    *("tril", "triu", "nn.functional.channel_shuffle", "block_diag"),
    *("unfold", "unfold_copy", "nn.functional.unfold", "diag", "diag_embed", "diagonal_copy", "diagonal_scatter"),
    *("as_strided_scatter", "select_scatter", "slice_scatter", "repeat", "tile", "constant_pad_nd"),
    *("nn.functional.pad.constant", "nn.functional.pad.circular", "nn.functional.pixel_shuffle"),
    *("nn.functional.pixel_unshuffle", "_chunk_cat"),
)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    compare(entry, "shape", dtypes=DTYPES)


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert torch.equal(actual.cpu(), expected)
    assert not on_cpu("shape")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cat_of_many_layouts(dtype: torch.dtype, counted: Any) -> None:
    a = torch.testing.make_tensor(4, 5, 6, dtype=dtype, device="cpu")
    on_device = a.to("sim")
    views = [lambda t: t, lambda t: t.transpose(0, 1)[:4], lambda t: t[:, ::2], lambda t: t[:, 1:4], lambda t: t[:, :0]]
    parts, moved = ([v(t) for v in views] + [t.new_empty(0)] for t in (a, on_device))
    assert_same(torch.cat(moved, 1), torch.cat(parts, 1))
    assert_same(torch.cat([a.to("sim")] * 3, -1), torch.cat([a] * 3, -1))
    out = torch.empty(6, 13, 4, dtype=dtype, device="sim").transpose(0, 2)
    assert torch.cat([moved[0], moved[2], moved[0]], 1, out=out) is out
    assert_same(out, torch.cat([parts[0], parts[2], parts[0]], 1))


def test_cat_promotes_and_keeps_memory_formats(counted: Any) -> None:
    a, b, c = torch.randn(2, 3, 4, 5), torch.randint(0, 9, (2, 2, 4, 5)), torch.rand(2, 1, 4, 5).half()
    assert_same(torch.cat([t.to("sim") for t in (a, b, c)], 1), torch.cat([a, b, c], 1))
    assert_same(torch.cat([b.to("sim"), (b > 3).to("sim")], 1), torch.cat([b, b > 3], 1))
    last = a.contiguous(memory_format=torch.channels_last)
    joined = torch.cat([last.to("sim"), last.to("sim")], 1)
    assert_same(joined, torch.cat([last, last], 1))
    assert joined.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        torch.cat([a.to("sim"), a.to("sim")[:, :, 1:]], 1)


def test_a_large_cat_uses_many_groups(counted: Any) -> None:
    parts = [torch.randn(7, n, 501) for n in (3, 100, 1, 64)]
    assert_same(torch.cat([p.to("sim") for p in parts], 1), torch.cat(parts, 1))
    assert_same(torch.cat([p.to("sim") for p in parts[:1] * 40]), torch.cat(parts[:1] * 40))


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), (0, 1, 2), (-1, -2), ()], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_flip(dims: tuple[int, ...], dtype: torch.dtype, counted: Any) -> None:
    a = torch.testing.make_tensor(3, 40, 70, dtype=dtype, device="cpu")
    assert_same(a.to("sim").flip(dims), a.flip(dims))
    assert_same(a.to("sim").transpose(0, 2).flip(dims), a.transpose(0, 2).flip(dims))
    assert_same(a.to("sim")[:, ::3, 1:].flip(dims), a[:, ::3, 1:].flip(dims))


def test_roll(counted: Any) -> None:
    a = torch.randn(5, 6, 7)
    for shifts, dims in (
        (2, 0),
        (-1, 1),
        ((1, -2), (0, 2)),
        ((1, 2, 3), (0, 1, 2)),
        ((1, 1), (1, 1)),
        (9, None),
        (0, 0),
    ):
        for view in (lambda t: t, lambda t: t.transpose(0, 2), lambda t: t[:, ::2]):
            assert_same(torch.roll(view(a.to("sim")), shifts, dims), torch.roll(view(a), shifts, dims))
    with pytest.raises(RuntimeError, match="shifts and dimensions must align"):
        torch.roll(a.to("sim"), (1, 2), (0,))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_triangles(dtype: torch.dtype, counted: Any) -> None:
    a = torch.testing.make_tensor(3, 9, 13, dtype=dtype, device="cpu")
    for k in (-20, -3, 0, 1, 5, 40):
        for f in (torch.tril, torch.triu):
            assert_same(f(a.to("sim"), k), f(a, k))
            assert_same(f(a.to("sim").transpose(0, 2), k), f(a.transpose(0, 2), k))
    b, twin = a.clone(), a.to("sim")
    assert twin[:, 1:].tril_(1).data_ptr() == twin[:, 1:].data_ptr()
    b[:, 1:].tril_(1)
    assert_same(twin, b)


@pytest.mark.parametrize("diagonal", [-(2**63), 2**63 - 1, -5, 4])
def test_triangles_outside_of_the_matrix(diagonal: int) -> None:
    x = torch.arange(1.0, 13).view(4, 3)
    for function in (torch.triu, torch.tril):
        assert torch.equal(function(x.to("sim"), diagonal).cpu(), function(x, diagonal))


def test_unfold_backward_checks_its_arguments() -> None:
    seed = torch.ones(2, 3, device="sim")
    with pytest.raises(ValueError, match="step is 0"):
        torch.ops.aten.unfold_backward(seed, [6], 0, 3, 0)
    with pytest.raises(RuntimeError, match="size is -1"):
        torch.ops.aten.unfold_backward(seed, [6], 0, -1, 1)


def test_windows(counted: Any) -> None:
    a = torch.randn(2, 3, 11, 14, dtype=torch.float64)
    for options in ({"kernel_size": 3}, {"kernel_size": (2, 3), "dilation": 2, "padding": (1, 2), "stride": (2, 1)}):
        given, twin = a.clone().requires_grad_(), a.to("sim").requires_grad_()
        columns, ours = (torch.nn.functional.unfold(t, **options) for t in (given, twin))
        torch.testing.assert_close(ours.cpu(), columns)
        seed = torch.randn_like(columns)
        torch.testing.assert_close(
            torch.autograd.grad(ours, twin, seed.to("sim"))[0].cpu(), torch.autograd.grad(columns, given, seed)[0]
        )
    for dim, size, step in ((0, 2, 1), (2, 4, 3), (-1, 5, 9)):
        given, twin = a.clone().requires_grad_(), a.to("sim").requires_grad_()
        seed = torch.randn_like(a.unfold(dim, size, step))
        (right,) = torch.autograd.grad(given.unfold(dim, size, step), given, seed)
        (ours,) = torch.autograd.grad(twin.unfold(dim, size, step), twin, seed.to("sim"))
        torch.testing.assert_close(ours.cpu(), right)
    assert not on_cpu("shape")


def test_vendor_kernel_runs_first() -> None:
    parts = [torch.ones(2, 3, device="sim"), torch.zeros(1, 3, device="sim")]
    seen = []
    with hardpoint.kernel("cat")(lambda out, *rest: seen.append((tuple(out.shape), len(rest), rest[-1]))):
        torch.cat(parts)
    assert seen == [((3, 3), 3, 0)]
