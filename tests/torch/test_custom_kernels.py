"""Custom kernels of a program, in the portable dialect."""

from __future__ import annotations

import pytest
import torch

import hardpoint
from hardpoint.kernels.custom import PortableKernels

SOURCE = """
/* out = factor * x + shift */
HP_KERNEL(affine)(HP_GLOBAL T* out, HP_GLOBAL const T* x, hp_i64 n, double factor, hp_i64 shift) {
  HP_FOR_ELEMENTS(i, n) {
    out[i] = T_put((T_c)factor * T_get(x[i]) + (T_c)shift);
  }
}

HP_KERNEL(broken)(HP_GLOBAL T* out) {
  this is no C;
}
"""
kernels = PortableKernels(SOURCE, "hptest")


@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("n", [1, 4097, 100_000])
def test_values(device: str, dtype: torch.dtype, n: int) -> None:
    x = torch.randint(-50, 50, (n,)).to(dtype)
    out = torch.empty(n, dtype=dtype, device=device)
    on_device = x.to(device)
    kernels.launch("affine", n, out, on_device, n, 2.0, -3, T=dtype)
    del on_device  # the kernel keeps the memory alive until it is done
    torch.testing.assert_close(out.cpu(), x * 2 - 3)


def test_order_on_streams() -> None:
    x = torch.ones(1 << 18, device="sim")
    stream = torch.Stream(device="sim")
    torch.sim.synchronize()
    for _ in range(10):
        with stream:
            y = x + x
            out = torch.empty_like(y)
            kernels.launch("affine", y.numel(), out, y, y.numel(), 3.0, 1, T=y.dtype)
            total = out.sum()
        stream.synchronize()
        assert total.item() == 7 << 18


@pytest.mark.filterwarnings("ignore:fallback rule")
def test_counters_rules_and_empty_tensors(counted) -> None:
    x = torch.ones(3, device="sim")
    kernels.launch("affine", 3, x, x, 3, 2.0, 0, T=x.dtype)
    assert counted()["hptest::affine"] == {"portable": 1}
    with hardpoint.fallback("hptest::affine"), pytest.raises(NotImplementedError, match="rule"):
        kernels.launch("affine", 3, x, x, 3, 2.0, 0, T=x.dtype)
    kernels.launch("affine", 0, x, x, 0, 2.0, 0, T=x.dtype)
    assert x.tolist() == [2, 2, 2]
    assert counted()["hptest::affine"] == {"portable": 1}


def test_available() -> None:
    assert kernels.available()
    assert kernels.available("sim")


def test_mistakes() -> None:
    x = torch.ones(3, device="sim")
    with pytest.raises(NotImplementedError, match="no type float8_e5m2"):
        kernels.launch("affine", 3, x, x, 3, 2.0, 0, T=torch.float8_e5m2)
    with pytest.raises(RuntimeError, match="this is no C"):
        kernels.launch("broken", 3, x, T=x.dtype)
    with pytest.raises(hardpoint.PluginError, match="nowhere"):
        kernels.launch("affine", 3, x, x, 3, 2.0, 0, T=x.dtype, device="nowhere")
