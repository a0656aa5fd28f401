"""Kernels of groups of many work-items that read and write vectors, through OpenCL against the CPU: where memory is not
aligned, sizes leave a rest, and rows are short or long."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from opencl_driver import needs_opencl

RunPython = Callable[..., CompletedProcess[str]]
pytestmark = [needs_opencl, pytest.mark.slow]

#: What the programs share: tensors that begin at any place, and the comparison. Nothing may run on the CPU.
HEAD = """
import itertools
import os
import torch
import torch.nn.functional as F
import hardpoint

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
torch.manual_seed(int(os.environ["SEED"]))

def placed(x, offset):
    "The tensor on the device, from an element on that is that far from an aligned one."
    room = torch.zeros(x.numel() + offset, dtype=x.dtype, device="ocl")
    view = room[offset:].view(x.shape)
    view.copy_(x)
    return view

def same(found, expected, what, **tolerance):
    torch.testing.assert_close(found.cpu(), expected, msg=lambda m: f"{what}: {m}", **tolerance)

def check():
    on_cpu = [op for op, calls in hardpoint.counters().items() if calls.get("cpu")]
    assert on_cpu == [], on_cpu

hardpoint.reset_counters()
"""


def run(run_python: RunPython, program: str) -> None:
    run_python(f"{HEAD}{textwrap.dedent(program)}\ncheck()\n", HARDPOINT_DEVICE="ocl", timeout=250)


def test_fused(run_python: RunPython) -> None:
    run(
        run_python,
        """
        def function(x, y, row):
            z = (x * 2 + y).exp() * row
            return z, x > y

        graph = torch.compile(function, backend="hardpoint", dynamic=True)
        dtypes, shapes = (torch.float32, torch.bfloat16), [(9, 64), (40, 33), (3,)]
        for dtype, shape, offset in itertools.product(dtypes, shapes, (0, 1)):
            x, y = (torch.randn(shape, dtype=dtype) for _ in range(2))
            row = torch.rand(shape[-1], dtype=dtype)
            z = ((x.float() * 2 + y.float()).exp() * row.float()).to(dtype)
            found = graph(placed(x, offset), placed(y, offset), row.to("ocl"))
            same(found[0], z, (dtype, shape, offset), rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
            same(found[1], x > y, (dtype, shape, offset))
        assert any("fused" in op for op in hardpoint.counters()), hardpoint.counters()
        """,
    )


def test_copies(run_python: RunPython) -> None:
    run(
        run_python,
        """
        pairs = [
            (torch.float32, torch.bfloat16), (torch.bfloat16, torch.float32), (torch.float16, torch.float32),
            (torch.float64, torch.float16), (torch.int64, torch.float32), (torch.float32, torch.bool),
            (torch.uint8, torch.float32), (torch.complex64, torch.complex128), (torch.int16, torch.int8),
        ]
        for (a, b), n, offset in itertools.product(pairs, (3, 512, 1024, 2051), (0, 1, 4)):
            x = (torch.randn(n) * 30).to(a)
            to = placed(torch.zeros(n, dtype=b), 0 if offset == 1 else offset)
            same(to.copy_(placed(x, offset)), x.to(b), (a, b, n, offset))

        dtypes = (torch.float32, torch.bfloat16, torch.float64, torch.uint8)
        shapes = [(2, 40, 3, 64), (3, 17, 5, 7), (2, 9, 30, 20)]
        for dtype, shape, offset in itertools.product(dtypes, shapes, (0, 1)):
            x = (torch.randn(shape) * 30).to(dtype)
            found = placed(x, offset)
            same(found.permute(0, 2, 1, 3).contiguous(), x.permute(0, 2, 1, 3), (dtype, shape, offset))
            same(found.permute(0, 2, 1, 3).half(), x.permute(0, 2, 1, 3).half(), (dtype, shape, offset))
            same(found[..., 4:].float(), x[..., 4:].float(), (dtype, shape, offset))
            same(found[:, ::2, :, 1:].clone(), x[:, ::2, :, 1:], (dtype, shape, offset))
        """,
    )


def test_softmax(run_python: RunPython) -> None:
    """Rows that a group keeps, and rows that it goes through twice."""
    run(
        run_python,
        """
        aten = torch.ops.aten
        both = (
            (F.softmax, aten._softmax_backward_data), (F.log_softmax, aten._log_softmax_backward_data),
        )
        for dtype, n, offset in itertools.product(FLOATS, (3, 100, 1024, 1031, 4999), (0, 1)):
            x, g = (torch.randn(4, n, dtype=dtype) * 5 for _ in range(2))
            for forward, backward in both[:1] if dtype in (torch.float64, torch.float16) else both:
                y = forward(x, -1)
                what = (forward, dtype, n, offset)
                loose = {torch.float32: 1e-4, torch.float64: 1e-10}.get(dtype, 2e-2)
                same(forward(placed(x, offset), -1), y, what, rtol=loose, atol=loose)
                found = backward(placed(g, offset), placed(y, offset), -1, dtype)
                same(found, backward(g, y, -1, dtype), what, rtol=loose, atol=loose)
            if dtype == torch.bfloat16:
                wide = F.log_softmax(x, -1, dtype=torch.float32)
                same(F.log_softmax(placed(x, offset), -1, dtype=torch.float32), wide, (n, offset))
            if dtype == torch.float32:
                same(torch.logsumexp(placed(x, offset), -1), torch.logsumexp(x, -1), (n, offset))

        inf, nan = float("inf"), float("nan")
        for n, offset in itertools.product((10, 3000), (0, 1)):
            x = torch.randn(6, n)
            x[0] = -inf
            x[1, : n // 2] = -inf
            x[2, 3] = inf
            x[3, n - 1] = nan
            x[4, 1:] = -inf
            x[5] *= 1e38
            for function in (F.softmax, F.log_softmax, torch.logsumexp):
                same(function(placed(x, offset), -1), function(x, -1), (function, n, offset), equal_nan=True)
        """,
    )


def test_normalization_of_rows(run_python: RunPython) -> None:
    """Rows that a group keeps and longer ones; more rows than there are parts of the weights' gradients."""
    run(
        run_python,
        """
        def results(x, weight, bias, g):
            x, weight, bias = (v.detach().requires_grad_() for v in (x, weight, bias))
            y = F.layer_norm(x, x.shape[1:], weight, bias)
            y.backward(g)
            yield from (("y", y.detach()), ("dx", x.grad), ("dw", weight.grad), ("db", bias.grad))
            if x.dtype == torch.bfloat16:
                return
            x.grad = weight.grad = None
            y = F.rms_norm(x, x.shape[1:], weight, eps=1e-6)
            y.backward(g)
            yield from (("rms y", y.detach()), ("rms dx", x.grad), ("rms dw", weight.grad))

        shapes = [(1, 1), (3, 7), (700, 64), (5, 500), (9, 512), (4, 513), (600, 1000)]
        for dtype, shape, offset in itertools.product((torch.float32, torch.bfloat16), shapes, (0, 1)):
            x, g = (torch.randn(shape, dtype=dtype) for _ in range(2))
            weight, bias = (torch.randn(shape[1:], dtype=dtype) for _ in range(2))
            given = (placed(x, offset), weight.to("ocl"), bias.to("ocl"), placed(g, offset))
            expected = results(*(v.double() for v in (x, weight, bias, g)))
            # What the inputs' gradients are differences of: large where a row is one element, and nothing is left.
            wide = x.double()
            moments = torch.stack((wide.var(1, correction=0) + 1e-5, wide.square().mean(1) + 1e-6))
            terms = (moments.rsqrt().max() * (g.double() * weight.double()).abs().max()).item()
            for (what, a), (_, b) in zip(results(*given), expected):
                size = max(b.abs().max().item() + 1, terms if what.endswith("dx") else 0)
                loose = 2e-5 if dtype == torch.float32 else 2e-2
                same(a, b.to(dtype), (dtype, shape, offset, what), rtol=loose, atol=loose * size)
        """,
    )


def test_lists(run_python: RunPython) -> None:
    run(
        run_python,
        """
        for dtype, offset in itertools.product((torch.float32, torch.float64, torch.bfloat16), (0, 1)):
            sizes = (1, 5, 1024, 1025, 2048, 5000, 3, 1030, 4096)
            a, b, c = ([torch.rand(n, dtype=dtype) + 0.5 for n in sizes] for _ in range(3))
            x, y, z = ([placed(v, offset) for v in list] for list in (a, b, c))
            one = torch.tensor(1.5, dtype=dtype)
            for name, found, expected in [
                ("add", torch._foreach_add(x, 2), torch._foreach_add(a, 2)),
                ("mul", torch._foreach_mul(x, y), torch._foreach_mul(a, b)),
                ("by one", torch._foreach_mul(x, one.to("ocl")), torch._foreach_mul(a, one)),
                ("addcdiv", torch._foreach_addcdiv(x, y, z, 0.5), torch._foreach_addcdiv(a, b, c, 0.5)),
            ]:
                for got, wanted in zip(found, expected):
                    same(got, wanted, (name, dtype, offset, wanted.numel()))
            torch._foreach_add_(x, 1)
            for got, wanted in zip(x, a):
                same(got, wanted + 1, ("in place", dtype, offset, wanted.numel()))
        """,
    )


def test_pooling(run_python: RunPython) -> None:
    """Windows that overlap, lie apart, are dilated or hang over the edge; gradients are gathered."""
    run(
        run_python,
        """
        def results(x, function):
            x = x.detach().requires_grad_()
            y, places = function(x)
            y.backward(torch.arange(y.numel(), dtype=y.dtype, device=y.device).view(y.shape) % 7)
            return y.detach(), places, x.grad

        planes, volumes = (2, 3, 19, 23), (2, 2, 7, 9, 11)
        cases = [
            (planes, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)),
            (planes, lambda x: F.max_pool2d(x, 2, return_indices=True)),
            (planes, lambda x: F.max_pool2d(x, (2, 3), 4, return_indices=True)),
            (planes, lambda x: F.max_pool2d(x, 3, 1, 1, 2, return_indices=True)),
            (planes, lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)),
            (planes, lambda x: F.adaptive_max_pool2d(x, (5, 4), return_indices=True)),
            (volumes, lambda x: F.max_pool3d(x, 3, 2, 1, return_indices=True)),
            (volumes, lambda x: F.max_pool3d(x, 2, 1, 1, 2, return_indices=True)),
        ]
        for dtype, (k, (shape, function)) in itertools.product((torch.float32, torch.bfloat16), enumerate(cases)):
            x = torch.randn(shape).to(dtype)
            if k == 0:
                x[0, 0, 3:9] = float("nan")
                x[0, 1] = float("-inf")
            for found, expected in zip(results(x.to("ocl"), function), results(x, function)):
                same(found, expected, (dtype, k), equal_nan=True)
        samples = torch.rand(2, 3, 2)
        x = torch.randn(planes)
        found = F.fractional_max_pool2d(x.to("ocl"), 3, (8, 9), None, True, samples.to("ocl"))
        for got, wanted in zip(found, F.fractional_max_pool2d(x, 3, (8, 9), None, True, samples)):
            same(got, wanted, "fractional")
        """,
    )


def test_pointwise(run_python: RunPython) -> None:
    """Functions, of which a work-item reads several vectors before it computes, and plain arithmetic."""
    run(
        run_python,
        """
        shapes = [(5,), (512,), (1024,), (3000,), (40, 64), (33, 31)]
        for dtype, shape, offset in itertools.product(FLOATS, shapes, (0, 1)):
            x, row = torch.randn(shape, dtype=dtype), torch.rand(shape[-1], dtype=dtype)
            for function in (F.gelu, lambda v: v * 3, torch.exp):
                found = placed(x, offset)
                same(function(found), function(x), (dtype, shape, offset))
            same(placed(x, offset).atan2(placed(row, offset)), x.atan2(row), (dtype, shape, offset))
            found.exp_()
            same(found, x.exp(), (dtype, shape, offset, "in place"))
        """,
    )
