"""Index writes: every dtype and layout against the CPU, the order of writes, and deterministic sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from opinfo import INDEX, on_cpu

import hardpoint

REAL = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
DTYPES = (*REAL, torch.complex64, torch.complex128)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 1),
    "step": lambda t: t[:, ::2],
    "offset": lambda t: t[2:, 1:],
}


def on_device(t: torch.Tensor) -> torch.Tensor:
    """Copy to the device with the same layout, which `to` would make dense."""
    whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return whole.to("sim").as_strided(t.shape, t.stride(), t.storage_offset())


def writes(function: Callable[..., object], x: torch.Tensor, *others: torch.Tensor, exact: bool = False) -> None:
    """Compare the change of the first argument with the CPU; the rest of its storage must not change."""
    x = _copy(x)
    device = on_device(x)
    moved = [on_device(t) for t in others]
    hardpoint.reset_counters()
    function(device, *moved)
    assert not on_cpu(*INDEX)
    function(x, *others)
    actual, expected = _storage(device), _storage(x)
    if exact or not (x.is_floating_point() or x.is_complex()):
        assert torch.equal(actual, expected)
    else:
        low = x.dtype in (torch.float16, torch.bfloat16)
        torch.testing.assert_close(actual, expected, rtol=3e-2 if low else 1e-5, atol=3e-2 if low else 1e-5)


def _copy(x: torch.Tensor) -> torch.Tensor:
    whole = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage()).clone()
    return whole.as_strided(x.shape, x.stride(), x.storage_offset())


def _storage(x: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=x.dtype, device=x.device).set_(x.untyped_storage()).cpu()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_layout(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](torch.testing.make_tensor(6, 6, 5, dtype=dtype, device="cpu", low=-2, high=2))
    rows, columns, depth = x.shape
    # Unique indices, so that the order does not matter on the CPU either.
    once, few = torch.randperm(columns)[:2], torch.randint(0, rows, (9,))
    src = torch.testing.make_tensor(rows, 2, depth, dtype=dtype, device="cpu", low=-2, high=2)
    many = torch.testing.make_tensor(9, columns, depth, dtype=dtype, device="cpu", low=-2, high=2)
    index = once[None, :, None].expand(rows, 2, depth)
    repeated = torch.randint(0, rows, (9, columns, depth))
    writes(lambda x, i, s: x.scatter_(1, i, s), x, index, src, exact=True)
    writes(lambda x, i: x.scatter_(1, i, 1), x, index, exact=True)
    writes(lambda x, i, s: x.index_copy_(1, i, s), x, once, src, exact=True)
    writes(lambda x, i: x.index_fill_(1, i - x.shape[1], 1), x, once, exact=True)
    writes(lambda x, r, i, s: x.index_put_((r, i), s), x, torch.arange(rows)[:, None], once, src, exact=True)
    writes(lambda x, i, s: x.index_put_((i,), s[0, 0]), x, few, src, exact=True)
    writes(lambda x, i, s: x.put_(i, s[0, 0, :2]), x, torch.tensor([1, -1]), src, exact=True)
    writes(lambda x, i, s: x.scatter_add_(0, i, s), x, repeated, many)
    writes(lambda x, i, s: x.scatter_add_(2, i, s), x, torch.randint(0, depth, (3, 2, 9)), many.transpose(0, 2)[:3, :2])
    writes(lambda x, i, s: x.index_add_(0, i, s), x, few, many)
    writes(lambda x, i, s: x.index_put_((i,), s, accumulate=True), x, few, many)
    writes(lambda x, i, s: x.index_put_((i, i % 2), s[:, 0], accumulate=True), x, few, many)
    writes(lambda x, i, s: torch.ops.aten.index_put_(x, [None, i % 2], s, True), x, few, many[0, 0])
    writes(lambda x, i, s: x.put_(i, s, accumulate=True), x, torch.randint(0, x.numel(), (9,)), many[:, 0, 0])


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_reductions(reduce: str, include_self: bool, dtype: torch.dtype) -> None:
    if dtype is torch.bool:
        pytest.skip("torch has no scatter_reduce for bool")
    x = torch.testing.make_tensor(5, 7, dtype=dtype, device="cpu", low=1, high=3)
    src = torch.testing.make_tensor(4, 7, dtype=dtype, device="cpu", low=1, high=3)
    i = torch.randint(0, 5, (4, 7))
    writes(lambda x, i, s: x.scatter_reduce_(0, i, s, reduce, include_self=include_self), x, i, src)
    if reduce != "sum":
        writes(lambda x, i, s: x.index_reduce_(0, i, s, reduce, include_self=include_self), x, i[:, 0], src)
    if dtype.is_floating_point:
        special = src.clone()
        special[0], special[1] = float("nan"), float("inf")
        expected = x.scatter_reduce(0, i, special, reduce, include_self=include_self)
        actual = x.to("sim").scatter_reduce(0, i.to("sim"), special.to("sim"), reduce, include_self=include_self)
        torch.testing.assert_close(actual.cpu(), expected, equal_nan=True, rtol=2e-2, atol=2e-2)


def test_the_last_of_several_writes_wins() -> None:
    """As on the CPU with one thread; torch makes no promise."""
    for columns in (1, 3, 200):
        x, n = torch.zeros(50, columns), 20_000
        i, values = torch.randint(0, 50, (n,)), torch.arange(n * columns).view(n, columns).float()
        expected = x.clone()
        for k in range(50):
            expected[k] = values[(i == k).nonzero()[-1, 0]]
        d, j, v = x.to("sim"), i.to("sim"), values.to("sim")
        assert torch.equal(d.index_put((j,), v).cpu(), expected)
        assert torch.equal(d.index_copy(0, j, v).cpu(), expected)
        assert torch.equal(d.scatter(0, j[:, None].expand(n, columns), v).cpu(), expected)
    flat = torch.zeros(50, device="sim")
    assert torch.equal(flat.put(j, v[:, 0].contiguous()).cpu(), expected[:, 0])


def test_sums_have_one_order() -> None:
    """Sums in index order: bitwise equal to a loop."""
    for columns, n in ((1, 30_000), (5, 9_000), (128, 2_000), (700, 500)):
        i, values = torch.randint(0, 40, (n,)), torch.randn(n, columns)
        expected = torch.zeros(40, columns)
        for k in range(40):
            chosen = values[i == k]
            for row in chosen:
                expected[k] += row
        j, v = i.to("sim"), values.to("sim")
        zero = torch.zeros(40, columns, device="sim")
        assert torch.equal(zero.index_add(0, j, v).cpu(), expected)
        assert torch.equal(zero.index_put((j,), v, accumulate=True).cpu(), expected)
        assert torch.equal(zero.scatter_add(0, j[:, None].expand(n, columns), v).cpu(), expected)
        assert torch.equal(zero.t().contiguous().scatter_add(1, j.expand(columns, n), v.t()).t().cpu(), expected)
        assert torch.equal(torch.ops.aten.embedding_dense_backward(v, j, 40, -1, False).cpu(), expected)


def test_sizes_zero_and_no_dimensions() -> None:
    none = torch.empty(0, dtype=torch.int64)
    writes(lambda x, i: x.index_put_((i,), x.new_zeros(0, 3)), torch.randn(4, 3), none)
    writes(lambda x, i: x.scatter_(0, i[:, None], x.new_zeros(0, 1)), torch.randn(4, 3), none)
    writes(lambda x, i: x.index_add_(0, i, x.new_zeros(0, 3)), torch.randn(4, 3), none)
    writes(lambda x, i: x.put_(i, x.new_zeros(0)), torch.randn(4, 3), none)
    writes(lambda x, i: x.scatter_add_(0, i, x.new_ones(())), torch.randn(()), torch.tensor(0))
    writes(lambda x, i: x.index_add_(0, i, x.new_ones(())), torch.randn(()), torch.tensor([0]))
    writes(lambda x, i: x.index_fill_(0, i, 2.0), torch.randn(()), torch.tensor([0]))
    writes(lambda x, i: x.index_fill_(0, i, x.new_ones(())), torch.randn(4), torch.tensor(-1))
    writes(lambda x, i: x.index_copy_(0, i, x.new_ones(1)), torch.randn(4), torch.tensor([2]))
    writes(lambda x, m: x.index_put_((m,), x.new_ones(1)), torch.randn(4, 3), torch.rand(4, 3) > 0.5)
    writes(lambda x, m: x.index_put_((m,), x.new_full((3,), 2.0)), torch.randn(4, 3), torch.rand(4) > 0.5)


def test_index_put_without_indices() -> None:
    x = torch.tensor(2.0, device="sim")
    assert x.index_put((), torch.tensor(3.0, device="sim"), accumulate=True).item() == 5
    for accumulate in (False, True):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x.index_put((), torch.ones(3, device="sim"), accumulate)


def test_views_in_place() -> None:
    base = torch.randn(8, 8)
    device = base.to("sim")
    i = torch.tensor([0, 2])
    base.t()[1:5].index_add_(0, i, torch.ones(2, 8))
    device.t()[1:5].index_add_(0, i.to("sim"), torch.ones(2, 8, device="sim"))
    assert torch.equal(device.cpu(), base)
    with pytest.raises(RuntimeError, match="clone"):
        device[:4].index_put_((i.to("sim"),), device[1:3])
    with pytest.raises(RuntimeError, match="single memory location"):
        device[:1].expand(4, 8).index_add_(0, i.to("sim"), torch.ones(2, 8, device="sim"))


@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("padding", [None, 3])
def test_embedding_backward(by_frequency: bool, padding: int | None) -> None:
    weight, i = torch.randn(30, 70, dtype=torch.float64), torch.randint(0, 30, (5, 40))
    grads = []
    for device in ("cpu", "sim"):
        w = weight.clone().to(device).requires_grad_()
        hardpoint.reset_counters()
        out = torch.nn.functional.embedding(i.to(device), w, padding, scale_grad_by_freq=by_frequency)
        (out * out).sum().backward()
        assert w.grad is not None
        grads.append(w.grad.cpu())
    assert not on_cpu(*INDEX)
    torch.testing.assert_close(grads[1], grads[0])


def test_put_is_refused_in_deterministic_mode() -> None:
    x, index, values = torch.zeros(3, device="sim"), torch.tensor([0, 0], device="sim"), torch.ones(2, device="sim")
    torch.use_deterministic_algorithms(True)
    try:
        with pytest.raises(RuntimeError, match="put_ does not have a deterministic implementation"):
            x.put_(index, values)
        assert x.put_(index, values, accumulate=True).tolist() == [2, 0, 0]
    finally:
        torch.use_deterministic_algorithms(False)


def test_index_add_with_alpha_of_another_type() -> None:
    index = torch.tensor([1, 0, 1])
    for alpha, dtype in ((2.5, torch.int32), (1.5, torch.int64), (2, torch.float32), (True, torch.int8)):
        x, source = torch.ones(2, 3, dtype=dtype), torch.arange(9).reshape(3, 3).to(dtype)
        ours = x.to("sim").index_add(0, index.to("sim"), source.to("sim"), alpha=alpha)
        assert torch.equal(ours.cpu(), x.index_add(0, index, source, alpha=alpha))
    with pytest.raises(RuntimeError, match="cannot be converted to type float"):
        torch.ones(2, device="sim").index_add(0, index[:1].to("sim"), torch.ones(1, device="sim"), alpha=1j)
