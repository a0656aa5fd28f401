"""Batch norm kernels that split a channel over several work-groups of many work-items."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from work_groups import Kernel, integers, needs_compiler

pytestmark = [needs_compiler, pytest.mark.parametrize("group_size", [4, 64])]

BATCH, CHANNELS, EPS, MOMENTUM = 3, 5, 1e-5, 0.25


def divide_up(a: int, b: int) -> int:
    return (a + b - 1) // b


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("plane", "pack", "parts"), [(28, 4, 3), (7, 1, 4)])
@pytest.mark.parametrize("train", [1, 0])
def test_batch_norm(tmp_path: Path, group_size: int, plane: int, pack: int, parts: int, train: int) -> None:
    x = (torch.randn(BATCH, CHANNELS, plane) * 3 + 100).requires_grad_()
    weight, bias = torch.randn(CHANNELS).requires_grad_(), torch.randn(CHANNELS).requires_grad_()
    running = torch.randn(CHANNELS) + 100, torch.rand(CHANNELS) + 1
    expected_running = [t.clone() for t in running]
    expected = torch.nn.functional.batch_norm(x, *expected_running, weight, bias, bool(train), MOMENTUM, EPS)
    seed = torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, (x, weight, bias), seed)

    elements = BATCH * plane
    part = divide_up(divide_up(elements, parts), pack) * pack
    parts = divide_up(elements, part)
    geometry, groups = integers(CHANNELS, parts, part, BATCH, plane, CHANNELS * plane), CHANNELS * parts
    options = f"T=f32 W=f32 S=f32 PACK={pack} TRAIN={train}"

    def kernel(name: str, description: str = options) -> Kernel:
        return Kernel(tmp_path, f"batch_norm:{name}", description, group_size)

    out, sums = torch.full_like(x, float("nan")).detach(), torch.full((groups, 2), float("nan"))
    mean, invstd = torch.empty(CHANNELS), torch.empty(CHANNELS)
    given = x.detach()
    if train:
        kernel("sums", f"T=f32 PACK={pack}")(groups, sums, given, geometry)
    kernel("apply")(groups, out, mean, invstd, given, weight, bias, *running, sums, geometry, MOMENTUM, EPS)
    torch.testing.assert_close(out, expected.detach(), rtol=1e-4, atol=1e-4)
    for mine, theirs in zip(running, expected_running, strict=True):
        close(mine, theirs)
    if train:
        torch.testing.assert_close(mean, given.mean((0, 2)), rtol=1e-6, atol=1e-5)

    grad_x, grad_weight, grad_bias = (torch.full_like(g, float("nan")) for g in gradients)
    backward = kernel("sums_backward", f"T=f32 S=f32 PACK={pack} TRAIN={train}")
    backward(groups, sums, seed, given, mean, running[0], geometry)
    apply = kernel("apply_backward")
    apply(groups, grad_x, grad_weight, grad_bias, seed, given, weight, *running, mean, invstd, sums, geometry, EPS)
    if train:
        for mine, theirs in zip((grad_x, grad_weight, grad_bias), gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    else:
        close(grad_x, gradients[0])
