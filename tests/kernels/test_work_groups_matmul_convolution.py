"""Matrix product and convolution kernels with work-groups of many work-items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from work_groups import Kernel, integers, needs_compiler

pytestmark = [needs_compiler, pytest.mark.parametrize("group_size", [4, 64])]


def test_matmul(tmp_path: Path, group_size: int) -> None:
    kernel = Kernel(tmp_path, "matmul:product", "T=f32 R=f32", group_size)
    for transposed in (False, True):
        a, b, c = torch.randn(2, 70, 21), torch.randn(2, 21, 67), torch.randn(70, 67)
        if transposed:
            a, b = torch.randn(2, 21, 70).mT, torch.randn(2, 67, 21).mT
        out = torch.full((2, 70, 67), float("nan"))
        strides = [*out.stride(), *a.stride(), *b.stride(), 0, *c.stride()]
        geometry = integers(70, 67, 21, 64, 64, 2, 2, 2, 1, 1, strides)
        kernel(2 * 4, out, a, b, c, geometry, 0.5, 2.0)
        torch.testing.assert_close(out, 0.5 * (a @ b) + 2 * c, rtol=1e-5, atol=1e-5)


def test_dot(tmp_path: Path, group_size: int) -> None:
    kernel = Kernel(tmp_path, "matmul:dot", "T=f16 R=f32", group_size)
    a, b, out = torch.randn(1000).half(), torch.randn(1000).half(), torch.empty(4)
    kernel(4, out, a, b, 1000, 300, 1, 1)
    expected = [(x.float() * y.float()).sum() for x, y in zip(a.split(300), b.split(300), strict=True)]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-5, atol=1e-4)


def test_convolution(tmp_path: Path, group_size: int) -> None:
    x, weight, bias = torch.randn(2, 4, 7, 9), torch.randn(6, 2, 3, 2), torch.randn(6)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2}
    wanted = [t.requires_grad_() for t in (x, weight, bias)]
    y = torch.nn.functional.conv2d(*wanted, **options)
    seed = torch.randn_like(y)
    grad_x, grad_weight, grad_bias = torch.autograd.grad(y, wanted, seed)

    def spatial(tensor: torch.Tensor) -> list[int]:
        return [tensor.stride(0), tensor.stride(1), 0, tensor.stride(2), tensor.stride(3)]

    def geometry(with_bias: int) -> Any:
        sizes = [[1, 7, 9], [1, *y.shape[2:]], [1, 3, 2], [1, 2, 1], [0, 1, 2], [1, 1, 2]]
        return integers(2, 2, 3, 2, with_bias, *sizes, spatial(x), spatial(y), spatial(weight))

    def make(name: str) -> Kernel:
        return Kernel(tmp_path, f"convolution:{name}", "T=f32", group_size)

    def check(actual: torch.Tensor, expected: torch.Tensor) -> None:
        torch.testing.assert_close(actual, expected.detach(), rtol=1e-5, atol=1e-5)

    out, kernel = torch.full_like(y, float("nan")), make("y")
    kernel(kernel.groups(y.numel()), out, x, weight, bias, geometry(1), y.numel())
    check(out, y)
    out, kernel = torch.full_like(x, float("nan")), make("x")
    kernel(kernel.groups(x.numel()), out, seed, weight, bias, geometry(0), x.numel())
    check(out, grad_x)
    out = torch.full_like(weight, float("nan"))
    make("weight")(weight.numel(), out, x, seed, geometry(0))
    check(out, grad_weight)
    out = torch.full_like(bias, float("nan"))
    make("bias")(6, out, seed, geometry(0))
    check(out, grad_bias)


def test_convolution_by_im2col(tmp_path: Path, group_size: int) -> None:
    x, bias = torch.randn(3, 2, 7, 9), torch.randn(2)
    options: dict[str, Any] = {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2)}
    columns = torch.nn.functional.unfold(x, (3, 2), **options)  # (image, channel and tap, position)
    y_size = (4, 11)

    def geometry(with_bias: int) -> Any:
        sizes = [[1, 7, 9], [1, *y_size], [1, 3, 2], [1, 2, 1], [0, 1, 2], [1, 1, 2]]
        strides = [x.stride(0), x.stride(1), 0, x.stride(2), x.stride(3)]
        return integers(3, 1, 5, 2, with_bias, *sizes, strides, [0] * 5, [0] * 5)

    out = torch.full((12, 3 * 44), float("nan"))
    Kernel(tmp_path, "convolution:columns", "T=f32", group_size)(3, out, x, geometry(0), 3, 5)
    torch.testing.assert_close(out, columns.transpose(0, 1).reshape(12, -1), rtol=0, atol=0)
    given, folded = torch.randn(12, 3 * 44), torch.full_like(x, float("nan"))
    lines = 3 * 2 * 7
    Kernel(tmp_path, "convolution:fold", "T=f32", group_size)(-(-lines // 4), folded, given, bias, geometry(1), 3, 4)
    expected = torch.nn.functional.fold(given.view(12, 3, 44).transpose(0, 1), (7, 9), (3, 2), **options)
    torch.testing.assert_close(folded, expected + bias[:, None, None], rtol=1e-5, atol=1e-5)
