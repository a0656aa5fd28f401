"""Fused kernels against the CPU, and which nodes are fused."""

from __future__ import annotations

import pytest
import torch

import hardpoint
from hardpoint.graph.report import Explanation, _listening

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def fused(function, *inputs):
    """Compare a replay on the device with the CPU; returns the fused regions."""
    made = Explanation()
    with _listening(made), torch.no_grad():
        graph = torch.compile(function, backend="hardpoint")
        given = [x.to("sim") if isinstance(x, torch.Tensor) else x for x in inputs]
        for _ in range(3):
            found = graph(*given)
        expected = function(*inputs)
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, expected)), strict=True):
        assert one.dtype == other.dtype
        assert one.stride() == other.stride()
        # A fused kernel keeps float32 precision between steps, where the CPU rounds to 16 bits.
        loose = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(other.dtype, 0)
        if loose:
            torch.testing.assert_close(one.cpu(), other, rtol=loose, atol=loose)
        else:
            torch.testing.assert_close(one.cpu(), other)
    return [name for graph in made.graphs for name in graph.fused]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floating_point(dtype):
    x, y = (torch.randn(7, 33).to(dtype) for _ in range(2))
    assert len(fused(lambda x, y: (x.sigmoid() * y + 0.7).tanh() - x / (y.abs() + 1), x, y)) == 1


def test_integers_and_booleans():
    x, y = torch.randint(-50, 50, (40,)), torch.randint(1, 9, (40,), dtype=torch.int32)
    b = torch.rand(40) > 0.5
    fused(lambda x, y, b: ((x * y - 3).remainder(y), (x > y) & b | ~b, torch.where(b, x, y) + b), x, y, b)


def test_conversions_round():
    """As in autocast: a round trip through a 16-bit dtype is not optimized away."""
    x = torch.randn(100)
    fused(lambda x: (x * 3).to(torch.bfloat16).float() - x, x)
    fused(lambda x: (x * 100).to(torch.int8).float() + (x > 0).float(), torch.rand(50))


def test_broadcasting_and_layouts():
    x, row, column = torch.randn(5, 6, 7), torch.randn(7), torch.randn(6, 1)
    assert len(fused(lambda x, r, c: (x + r) * c - r.exp(), x, row, column)) == 1
    permuted = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    fused(lambda x: (x * 2).relu() + 1, permuted)
    fused(lambda x: (x[:, ::2] * 2).relu() + x[:, 1::2], torch.randn(4, 10))
    fused(lambda x, y: (x.t() * 2).exp() + y, torch.randn(6, 9), torch.randn(9, 6))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (1, 1, 5), (70000,)])
def test_sizes(shape):
    fused(lambda x: ((x + 1).exp() * 2, x.cos() - 1), torch.randn(shape))


def test_several_results():
    def function(x, y):
        a = x * y
        b = a.tanh()
        return a, b, b @ y.t(), (b + a).exp()

    assert fused(function, torch.randn(6, 6), torch.randn(6, 6)) == ["hardpoint::fused(mul,tanh,add,exp)"]


def test_no_cycle_between_kernels():
    """The matrix product needs the first node, and the last node needs both, so they cannot share a kernel."""

    def function(x):
        a = x.exp()
        return a * (a @ a).relu() + a

    names = fused(function, torch.randn(5, 5))
    assert names == ["hardpoint::fused(relu,mul,add)"]


def test_split_inputs():
    """Gates: a computation before a split is fused into the kernel that reads the parts, unless others read it too."""

    def gates(x, row, scale):
        a, b, c = (x * scale + row).chunk(3, -1)
        return a.sigmoid() * b + c

    x, row, scale = torch.randn(4, 1, 12), torch.randn(5, 12), torch.randn(5, 1)
    assert fused(gates, x, row, scale) == ["hardpoint::fused(add,add,add,sigmoid,mul,add)"]

    def simple(x, row):
        a, b = (x + row).split([5, 7], -1)
        return a.sigmoid() * 2, b.tanh() - 1

    assert len(fused(simple, x, row)) == 2
    assert len(fused(lambda x, row: torch.tanh(sum((x + row).chunk(2, 1))), torch.randn(3, 4), torch.randn(4))) == 1

    def shared(x, row):
        whole = x + row
        a, b = whole.chunk(2, -1)
        return a * b.exp(), whole

    fused(shared, x, row)
    fused(lambda x: (x * 2).chunk(2, 0)[1].relu() + 1, torch.randn(6, 3))


def test_many_operands():
    """More operands than one kernel takes: the region is split."""
    tensors = [torch.randn(11) for _ in range(24)]

    def function(*tensors):
        total = tensors[0]
        for k, each in enumerate(tensors[1:]):
            total = total * 0.5 + each * (k + 0.25)
        return total

    assert len(fused(function, *tensors)) > 1


def test_activations_and_their_gradients():
    def function(x):
        return torch.nn.functional.gelu(x, approximate="tanh") + torch.nn.functional.silu(x) * 2

    x = torch.randn(64, requires_grad=True)
    y = x.detach().to("sim").requires_grad_()
    made = torch.compile(function, backend="hardpoint")
    for _ in range(3):
        (found,) = torch.autograd.grad(made(y).sum(), y)
    (expected,) = torch.autograd.grad(function(x).sum(), x)
    torch.testing.assert_close(found.cpu(), expected)


def test_region_without_a_kernel(monkeypatch):
    """If a region has no kernel, its nodes run and are recorded one by one."""
    monkeypatch.setattr("hardpoint.kernels.fused.source", lambda *_: None)
    made = torch.compile(lambda x: (x * 2 + 1).exp().log1p(), backend="hardpoint")
    for _ in range(4):
        x = torch.randn(9, device="sim")
        torch.testing.assert_close(made(x), (x * 2 + 1).exp().log1p())
    counted = hardpoint.counters()
    assert not any(name.startswith("hardpoint::fused") for name in counted)
    assert "aten::log1p" in counted
