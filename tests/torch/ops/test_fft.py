"""Discrete Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo import FULL, close, entries, on_cpu, runs

import hardpoint

NAMES = (
    *(f"fft.{kind}{form}" for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft") for form in ("", "2", "n")),
    "stft",
)


def distance(actual: torch.Tensor, exact: torch.Tensor) -> float:
    """Error relative to the norm of the whole."""
    assert actual.shape == exact.shape
    return float((actual.cpu() - exact).norm() / exact.norm())


def limit(dtype: torch.dtype) -> float:
    return 2e-15 if dtype in (torch.float64, torch.complex128) else 5e-7


@pytest.mark.slow
@pytest.mark.parametrize("entry", entries(*NAMES))
def test_samples_against_the_cpu(entry: Any) -> None:
    # The gradient of a window is a sum over all frames.
    options = {torch.float32: {"rtol": 1e-5, "atol": 5e-5}} if entry.name == "stft" else {}
    for run in runs(entry, (*FULL, torch.complex64, torch.int64), limit=8):
        for ours, right in run.results():
            # Errors are relative to the norm of the whole, not to each element.
            assert ours.dtype == right.dtype
            assert right.numel() == 0 or distance(ours.detach(), right.detach()) < 2 * limit(right.dtype)
        for ours, right in run.gradients():
            close(ours, right, run.dtype, **options.get(run.dtype, {}))
        assert not on_cpu("fft")


#: Every radix, products of them, sizes with a large prime factor, and large sizes.
SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 25, 30, 49, 53, 60, 97, 106, 121, 128, 1000, 1009, 1155, 1024, 8192]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_sizes(n: int, dtype: torch.dtype) -> None:
    hardpoint.reset_counters()
    for shape, dim in (((n,), 0), ((3, n), 1), ((n, 35), 0), ((2, n, 3), 1)):
        x = torch.randn(shape, dtype=dtype)
        device, exact = x.to("sim"), x.to(torch.complex128)
        assert distance(torch.fft.fft(device, dim=dim), torch.fft.fft(exact, dim=dim)) < limit(dtype)
        assert distance(torch.fft.ifft(device, dim=dim), torch.fft.ifft(exact, dim=dim)) < limit(dtype)
        real = device.real.contiguous()
        half = torch.fft.rfft(exact.real, dim=dim)
        assert distance(torch.fft.rfft(real, dim=dim), half) < limit(dtype)
        back = torch.fft.irfft(half.to(dtype).to("sim"), n=n, dim=dim)
        assert distance(back, exact.real) < 2 * limit(dtype)
    assert not on_cpu("fft")


@pytest.mark.parametrize("norm", ["forward", "ortho", "backward"])
@pytest.mark.parametrize("dims", [(0, 1, 2), (2, 0), (1,), (-1, -2)], ids=str)
def test_several_dimensions(norm: str, dims: tuple[int, ...]) -> None:
    x = torch.randn(6, 10, 7, dtype=torch.complex128)
    transforms: list[tuple[Callable[..., torch.Tensor], torch.Tensor]] = [
        (torch.fft.fftn, x),
        (torch.fft.ifftn, x.transpose(0, 2)),
        (torch.fft.irfftn, x),
        (torch.fft.rfftn, x.real),
        (torch.fft.rfftn, x.imag.transpose(0, 1)),
        (torch.fft.hfftn, x.conj()),
        (torch.fft.ihfftn, x.real),
    ]
    hardpoint.reset_counters()
    for transform, given in transforms:
        exact = transform(given, dim=dims, norm=norm)
        assert distance(transform(given.to("sim"), dim=dims, norm=norm), exact) < 2e-15
    # A strided view on the device.
    assert distance(torch.fft.fftn(x.to("sim").transpose(0, 2)[::2]), torch.fft.fftn(x.transpose(0, 2)[::2])) < 2e-15
    assert not on_cpu("fft")


@pytest.mark.parametrize("n", [8, 9, 61])
def test_both_halves_of_a_real_transform(n: int) -> None:
    x = torch.randn(5, n, dtype=torch.float64)
    hardpoint.reset_counters()
    actual = torch.ops.aten._fft_r2c(x.to("sim"), [0, 1], 0, False)
    assert distance(actual, torch.fft.fft2(x.to(torch.complex128))) < 2e-15
    assert not on_cpu("fft")


def test_only_half_of_a_hermitian_input_is_read() -> None:
    """The conjugate half is ignored, as are imaginary parts of elements that must be real."""
    for n in (10, 11):
        x = torch.randn(4, n // 2 + 1, dtype=torch.complex128)
        assert distance(torch.fft.irfft(x.to("sim"), n=n), torch.fft.irfft(x, n=n)) < 2e-15


def test_given_outputs() -> None:
    x = torch.randn(4, 12, dtype=torch.complex64)
    exact = x.to(torch.complex128)
    hardpoint.reset_counters()
    out = torch.empty(0, dtype=torch.complex64, device="sim")
    torch.fft.fft(x.to("sim"), out=out)
    assert distance(out, torch.fft.fft(exact)) < 5e-7
    out = torch.empty(12, 4, dtype=torch.complex64, device="sim").t()
    torch.fft.ifft(x.to("sim"), out=out)
    assert distance(out, torch.fft.ifft(exact)) < 5e-7
    real = torch.empty(22, 4, device="sim").t()
    torch.fft.irfft(x.to("sim"), out=real)
    assert distance(real, torch.fft.irfft(exact)) < 5e-7
    assert not on_cpu("fft")


def test_empty_batches() -> None:
    x = torch.empty(0, 5, dtype=torch.complex64, device="sim")
    assert torch.fft.fft(x).shape == (0, 5)
    assert torch.fft.rfft(x.real).shape == (0, 3)
    with pytest.raises(RuntimeError, match="Invalid number of data points"):
        torch.fft.fft(x, dim=0)


def test_special_values_stay_in_their_line() -> None:
    x = torch.randn(40, 12)
    x[3, 5], x[20, 0] = math.nan, math.inf
    actual = torch.fft.rfft(x.to("sim")).cpu()
    bad = torch.tensor([3, 20])
    assert not torch.isfinite(torch.view_as_real(actual[bad])).all(-1).any()
    good = torch.isfinite(x).all(1)
    assert distance(actual[good], torch.fft.rfft(x[good].double())) < 5e-7


def test_a_size_again_on_another_stream() -> None:
    """Root tables are cached by size and shared between streams."""
    x = torch.randn(16, 77, dtype=torch.complex128)
    device, exact = x.to("sim"), torch.fft.fft(x)
    torch.sim.synchronize()  # type: ignore[attr-defined]
    for _ in range(3):
        with torch.sim.stream(torch.sim.Stream()):  # type: ignore[attr-defined]
            actual = torch.fft.fft(device)
            assert distance(actual, exact) < 2e-15
