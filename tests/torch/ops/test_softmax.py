"""Softmax, log_softmax and logsumexp against the CPU, for every dimension, layout and dtype."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo import FLOATS, IN_DOUBLE, compare, entries, on_cpu

import hardpoint

ENTRIES = entries("softmax", "log_softmax", "nn.functional.softmin", "logsumexp")
FUNCTIONS = {"softmax": torch.softmax, "log_softmax": torch.log_softmax, "logsumexp": torch.logsumexp}
SHAPES = [(1,), (5,), (3, 16), (7, 50), (2, 1025), (2, 5000), (4, 9, 3), (3, 5, 70), (2, 3, 4, 65), (65, 1, 3)]


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_samples(entry: Any) -> None:
    compare(entry, "softmax", **IN_DOUBLE)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_dimension(name: str, shape: tuple[int, ...]) -> None:
    function = FUNCTIONS[name]
    for dim in range(len(shape)):
        x = (torch.randn(shape, dtype=torch.float64) * 3).requires_grad_()
        y = x.detach().float().to("sim").requires_grad_()
        hardpoint.reset_counters()
        expected, actual = function(x, dim), function(y, dim)
        assert not on_cpu("softmax")
        torch.testing.assert_close(actual.cpu(), expected.float())
        seed = torch.randn_like(expected)
        (right,) = torch.autograd.grad(expected, x, seed)
        (ours,) = torch.autograd.grad(actual, y, seed.float().to("sim"))
        assert not on_cpu("softmax")
        torch.testing.assert_close(ours.cpu(), right.float())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_layouts_and_dtypes(name: str, dtype: torch.dtype) -> None:
    base = torch.randn(6, 40, 5).to(dtype)
    views = [base.transpose(0, 1), base[:, ::2], base[:1].expand(6, 40, 5), base[0, 0, 0], base[:0], base.flatten()[1:]]
    device = base.to("sim")
    ours = [
        *(device.transpose(0, 1), device[:, ::2], device[:1].expand(6, 40, 5)),
        *(device[0, 0, 0], device[:0], device.flatten()[1:]),
    ]
    for x, y in zip(views, ours, strict=True):
        for dim in {0, -1, x.dim() // 2 - (x.dim() > 0)} if x.dim() else {0}:
            got = FUNCTIONS[name](y, dim)
            assert got.dtype is dtype
            torch.testing.assert_close(got.cpu(), FUNCTIONS[name](x.double(), dim).to(dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str) -> None:
    inf, nan = float("inf"), float("nan")
    rows = torch.tensor([[1.0, nan, 2.0], [inf, 1.0, 0.0], [-inf, 0.0, 1.0], [-inf, -inf, -inf], [inf, -inf, inf]])
    function = FUNCTIONS[name]
    torch.testing.assert_close(function(rows.to("sim"), 1).cpu(), function(rows, 1), equal_nan=True)
    torch.testing.assert_close(function(rows.t().to("sim"), 0).cpu(), function(rows.t(), 0), equal_nan=True)


def test_wider_results_and_out() -> None:
    half = torch.randn(9, 33).half()
    wide = torch.ops.aten._softmax(half.to("sim"), 1, True)
    assert wide.dtype is torch.float32
    torch.testing.assert_close(wide.cpu(), torch.softmax(half.float(), 1))
    grad = torch.randn(9, 33)
    back = torch.ops.aten._softmax_backward_data(grad.to("sim"), wide, 1, torch.float16)
    assert back.dtype is torch.float16
    y = wide.cpu()
    torch.testing.assert_close(back.cpu(), ((grad - (grad * y).sum(1, True)) * y).half())
    x = torch.randn(4, 6)
    out = torch.empty(6, 4, device="sim").t()
    assert torch.ops.aten._log_softmax.out(x.to("sim"), 0, False, out=out) is out
    torch.testing.assert_close(out.cpu(), x.log_softmax(0))
    out = torch.empty(0, device="sim")
    torch.logsumexp(x.to("sim"), (0, 1), out=out)
    torch.testing.assert_close(out.cpu(), x.logsumexp((0, 1)))
    assert not on_cpu("softmax")


def test_logsumexp_over_several_dimensions() -> None:
    x = torch.randn(3, 4, 5, 6)
    for dims in ((0,), (1, 3), (0, 2), (0, 1, 2, 3)):
        for keepdim in (False, True):
            torch.testing.assert_close(x.to("sim").logsumexp(dims, keepdim).cpu(), x.logsumexp(dims, keepdim))
    ints = torch.randint(5, (4, 5))
    torch.testing.assert_close(ints.to("sim").logsumexp(1).cpu(), ints.logsumexp(1))


def test_masked_softmax() -> None:
    x, grad = torch.randn(2, 3, 5, 5), torch.randn(2, 3, 5, 5)
    for mask_type, mask in enumerate((torch.rand(5, 5) < 0.4, torch.rand(2, 5) < 0.4, torch.rand(2, 3, 5, 5) < 0.4)):
        mask[..., 0] = False
        hardpoint.reset_counters()
        ours = torch._masked_softmax(x.to("sim"), mask.to("sim"), 3, mask_type)
        assert "cpu" not in hardpoint.counters()["aten::_masked_softmax"]
        right = torch._masked_softmax(x, mask, 3, mask_type)
        torch.testing.assert_close(ours.cpu(), right)
    back = torch.ops.aten._masked_softmax_backward(grad.to("sim"), ours, mask.to("sim"), 3)
    assert "cpu" not in hardpoint.counters()["aten::_masked_softmax_backward"]
    torch.testing.assert_close(back.cpu(), torch.ops.aten._masked_softmax_backward(grad, right, mask, 3))


@pytest.mark.parametrize("dim", [0, 1, (0, 1)], ids=str)
def test_logsumexp_of_complex_numbers(dim: Any) -> None:
    x = torch.randn(4, 5, dtype=torch.complex128).requires_grad_()
    y = x.detach().to("sim").requires_grad_()
    expected, actual = torch.logsumexp(x, dim), torch.logsumexp(y, dim)
    torch.testing.assert_close(actual.cpu(), expected)
    seed = torch.randn_like(expected)
    (right,) = torch.autograd.grad(expected, x, seed)
    (ours,) = torch.autograd.grad(actual, y, seed.to("sim"))
    torch.testing.assert_close(ours.cpu(), right)
    out = torch.empty(0, dtype=torch.complex128, device="sim")
    torch.testing.assert_close(torch.logsumexp(y.detach(), dim, out=out).cpu(), expected.detach())


def test_vendor_kernel_runs_first() -> None:
    seen = []

    def kernel(out: Any, x: Any, dim: int) -> None:
        seen.append((tuple(x.shape), dim))
        raise NotImplementedError

    with hardpoint.kernel("softmax")(kernel):
        x = torch.randn(3, 4)
        torch.testing.assert_close(x.to("sim").softmax(1).cpu(), x.softmax(1))
    assert seen == [((3, 4), 1)]
