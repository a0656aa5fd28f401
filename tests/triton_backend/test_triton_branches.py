"""Early returns of kernels and of the functions that they call."""

from __future__ import annotations

import os

import pytest
import torch
import triton
import triton.language as tl

DEVICE = os.environ["HARDPOINT_DEVICE"]


@triton.jit
def reversed_or_shifted(out, reverse, N: tl.constexpr):
    """Both ends need the tile of x in memory."""
    i = tl.arange(0, N)
    x = (i * 3 + 1) % N
    if reverse:
        tl.store(out + i, tl.gather(x, N - 1 - i, 0))
        return
    tl.store(out + i, tl.gather(x, (i + 1) % N, 0))


@pytest.mark.parametrize("reverse", [False, True])
def test_a_tile_that_both_ends_of_a_kernel_need(reverse):
    out = torch.zeros(16, dtype=torch.int32, device=DEVICE)
    reversed_or_shifted[(1,)](out, reverse, N=16)
    x = (torch.arange(16, dtype=torch.int32) * 3 + 1) % 16
    assert torch.equal(out.cpu(), x.flip(0) if reverse else x.roll(-1))


@triton.jit
def larger(a, b):
    if a > b:
        return a
    return b


@triton.jit
def scaled(values, total):
    if total > 3:
        return values / total, 1
    if total < -3:
        return tl.flip(values, 0), 2
    return values, 0


@triton.jit
def count_up(out, number):
    if number > 1:
        tl.atomic_add(out, 1.0)
        return
    tl.atomic_add(out, number * 10.0)


@triton.jit
def normalize_rows(x, out, kinds, counts, rows, N: tl.constexpr):
    """Calls in a loop and in branches: functions of scalars and tiles, with several results, with none, and nested."""
    i = tl.arange(0, N)
    best = -float("inf")
    for row in range(rows):
        values = tl.load(x + row * N + i)
        values, kind = scaled(values, tl.sum(values, 0))
        best = larger(best, larger(tl.max(values, 0), 0.25))
        if kind != 1:
            count_up(counts, kind)
        else:
            count_up(counts, 0.5)
        tl.store(out + row * N + i, values)
        tl.store(kinds + row, kind)
    tl.store(counts + 1, best)


def test_functions_with_early_returns_in_a_loop():
    x = torch.randn(12, 16)
    out, kinds = torch.empty(12, 16, device=DEVICE), torch.empty(12, dtype=torch.int32, device=DEVICE)
    counts = torch.zeros(2, device=DEVICE)
    normalize_rows[(1,)](x.to(DEVICE), out, kinds, counts, 12, N=16)
    total = x.sum(1, keepdim=True)
    want = torch.where(total > 3, x / total, torch.where(total < -3, x.flip(1), x))
    kind = torch.where(total > 3, 1, torch.where(total < -3, 2, 0))[:, 0]
    assert set(kind.tolist()) == {0, 1, 2}
    torch.testing.assert_close(out.cpu(), want)
    assert kinds.tolist() == kind.tolist()
    torch.testing.assert_close(counts.cpu(), torch.tensor([5.0 * (kind == 1).sum() + (kind == 2).sum(), want.max()]))


@triton.jit
def largest(x, whole, columns, running, n, N: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(x + i, mask=i < n, other=-float("inf"))
    tl.store(whole, tl.reduce(values, 0, larger))
    tl.store(columns + tl.arange(0, 32), tl.reduce(tl.reshape(values, [N // 32, 32]), 0, larger))
    tl.store(running + i, tl.associative_scan(values, 0, larger), mask=i < n)


@pytest.mark.parametrize("n", [1, 257, 512])
def test_combine_functions_with_early_returns(n):
    """Their code appears several times in one kernel."""
    x = torch.randn(n)
    whole, columns, running = (torch.empty(size, device=DEVICE) for size in (1, 32, n))
    largest[(1,)](x.to(DEVICE), whole, columns, running, n, N=512)
    padded = torch.full((512,), -float("inf"))
    padded[:n] = x
    assert whole.item() == x.max().item()
    assert torch.equal(columns.cpu(), padded.view(16, 32).amax(0))
    assert torch.equal(running.cpu(), x.cummax(0).values)
