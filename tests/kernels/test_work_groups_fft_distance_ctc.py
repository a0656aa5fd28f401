"""FFT, distance, segment, CTC and hash kernels with work-groups of many work-items."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from test_work_groups_nn import Kernel

from hardpoint.kernels import generator

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")


def roots(n: int) -> torch.Tensor:
    return torch.polar(torch.ones(n), -2 * torch.pi * torch.arange(n) / n).contiguous()


@pytest.mark.parametrize("n", [1, 8, 30, 77])
def test_fft(tmp_path: Path, n: int) -> None:
    x, out = torch.randn(3, n, 4, dtype=torch.complex64), torch.empty(3, n, 4, dtype=torch.complex64)
    work = torch.empty(2 * 4 * 5 * n)
    kernel = Kernel(tmp_path, "fft:lines", "T=f32 KIND=0 BLUESTEIN=0")
    for inverse, transform in ((0, torch.fft.fft), (1, torch.fft.ifft)):
        kernel(2, out, x, work, roots(n), 12, n, 4, n, n, n, 5, 2, inverse, 1.0 / n if inverse else 1.0)
        torch.testing.assert_close(out, transform(x, dim=1), rtol=1e-5, atol=1e-5)


def test_fft_of_a_prime_length(tmp_path: Path) -> None:
    n, size = 59, 128
    j = torch.arange(n)
    chirp = torch.polar(torch.ones(n), -torch.pi * (j * j % (2 * n)) / n)
    padded = torch.zeros(size, dtype=torch.complex64)
    padded[j] = padded[-j % size] = chirp.conj() / size
    table = torch.cat([roots(size), chirp, torch.fft.fft(padded)]).contiguous()
    x, out = torch.randn(5, n), torch.empty(5, n // 2 + 1, dtype=torch.complex64)
    kernel = Kernel(tmp_path, "fft:lines", "T=f32 KIND=1 BLUESTEIN=1")
    kernel(2, out, x, torch.empty(2 * 4 * 2 * size), table, 5, n, 1, n, n // 2 + 1, size, 2, 2, 0, 1.0)
    torch.testing.assert_close(out, torch.fft.rfft(x), rtol=1e-5, atol=2e-5)
    back = torch.empty(5, n)
    kernel = Kernel(tmp_path, "fft:lines", "T=f32 KIND=2 BLUESTEIN=1")
    kernel(2, back, out, torch.empty(2 * 4 * 2 * size), table, 5, n, 1, n // 2 + 1, n, size, 2, 2, 1, 1.0 / n)
    torch.testing.assert_close(back, x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("norm", "p"), [(0, 0.0), (1, 1.0), (2, 2.0), (3, float("inf")), (4, 3.0)])
def test_distances(tmp_path: Path, norm: int, p: float) -> None:
    a, b = torch.randn(2, 5, 19, requires_grad=True), torch.randn(2, 7, 19)
    right, out, grad = torch.cdist(a, b, p), torch.empty(2, 5, 7), torch.randn(2, 5, 7)
    Kernel(tmp_path, "distance:forward", f"T=f32 NORM={norm} PAIRS=0")(5, out, a, b, 70, 5, 7, 19, p, 16)
    torch.testing.assert_close(out, right.detach())
    slope = torch.empty(2, 5, 19)
    back = Kernel(tmp_path, "distance:backward", f"T=f32 NORM={norm} PAIRS=0")
    back(4, slope, grad, a, b, out, 10, 5, 7, 19, p, 3)
    torch.testing.assert_close(slope, torch.autograd.grad(right, a, grad)[0], rtol=2e-5, atol=2e-5)
    pairs = torch.empty(10)
    Kernel(tmp_path, "distance:forward", f"T=f32 NORM={norm} PAIRS=1")(1, pairs, a, a, 10, 5, 5, 19, p, 16)
    torch.testing.assert_close(pairs, torch.pdist(a[0].detach(), p))


@pytest.mark.parametrize(("what", "reduce"), list(enumerate(["max", "mean", "min", "sum", "prod"])))
def test_segment_reduce(tmp_path: Path, what: int, reduce: str) -> None:
    data = torch.randn(12, 40, requires_grad=True)
    offsets = torch.tensor([0, 3, 4, 12])
    start = [-float("inf"), 0.0, float("inf"), 0.0, 1.0][what]
    right = torch.segment_reduce(data, reduce, offsets=offsets, axis=0)
    out, grad, slope = torch.empty(3, 40), torch.rand(3, 40), torch.empty(12, 40)
    Kernel(tmp_path, "segment:forward", f"T=f32 REDUCTION={what}")(2, out, data, offsets, 3, 3, 12, 40, 2, 0, start)
    torch.testing.assert_close(out, right.detach())
    back = Kernel(tmp_path, "segment:backward", f"T=f32 REDUCTION={what}")
    back(2, slope, grad, out, data, offsets, 3, 3, 12, 40, 2, start)
    torch.testing.assert_close(slope, torch.autograd.grad(right, data, grad)[0], rtol=2e-5, atol=2e-5)


def test_ctc_loss(tmp_path: Path) -> None:
    logs = torch.randn(12, 2, 6).log_softmax(2).requires_grad_()
    targets = torch.tensor([[1, 2, 2, 3, 1], [4, 5, 0, 0, 0]])
    steps, labels = (12, 10), (5, 2)
    losses, _ = torch.ops.aten._ctc_loss(logs, targets, steps, labels)
    lengths = torch.tensor([[12, 5, 0], [10, 2, 5]])
    fault, grad = torch.zeros(3, dtype=torch.int64), torch.rand(2)
    given = (logs, targets, lengths, 12, 2, 6, 11, 1, 0, fault, 7)
    ours, sums, beta, slope = torch.empty(2), torch.empty(2, 12, 11), torch.empty(2, 12, 11), torch.empty(12, 2, 6)
    Kernel(tmp_path, "ctc:forward", "T=f32 I=i64")(2, ours, sums, *given)
    torch.testing.assert_close(ours, losses.detach())
    Kernel(tmp_path, "ctc:beta", "T=f32 I=i64")(2, beta, *given)
    Kernel(tmp_path, "ctc:backward", "T=f32 I=i64")(24, slope, grad, ours, sums, beta, *given, 0)
    torch.testing.assert_close(slope, torch.autograd.grad(losses, logs, grad)[0], rtol=1e-4, atol=1e-5)
    assert fault.tolist() == [0, 0, 0]


def test_hash_tensor(tmp_path: Path) -> None:
    x, out = torch.randn(5, 77), torch.empty(5, dtype=torch.uint64)
    Kernel(tmp_path, "hash_tensor:rows", "T=f32")(3, out, x, 5, 77, 2)
    assert out.tolist() == torch.hash_tensor(x, [1]).tolist()


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_other_dialects(dialect: str) -> None:
    for name, description in (
        ("fft:lines", "T=f32 KIND=0 BLUESTEIN=1"),
        ("distance:backward", "T=f32 NORM=4 PAIRS=1"),
        ("segment:forward", "T=bf16 REDUCTION=1"),
        ("ctc:backward", "T=f32 I=i32"),
        ("hash_tensor:rows", "T=i8"),
    ):
        made = generator.generate(name, description, dialect, 64)
        assert made is not None
        assert f"hp_{name.replace(':', '_')}" in made[0]
