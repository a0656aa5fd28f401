"""Paddle's tensors for TVM-FFI: the same memory, on every device."""

from __future__ import annotations

import gc

import numpy as np
import paddle
import pytest
import tvm_ffi

from hardpoint.kernels.custom import PortableKernels
from hardpoint.paddle import exchange

kernels = PortableKernels(
    """
HP_KERNEL(negate)(HP_GLOBAL T* x, hp_i64 n) {
  HP_FOR_ELEMENTS(i, n) {
    x[i] = T_put(-T_get(x[i]));
  }
}
""",
    "hptest",
)
# TVM-FFI has no names for complex dtypes.
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_description(device: str, dtype: str) -> None:
    paddle.set_device(device)
    tensor = paddle.zeros([2, 3, 4]).astype(dtype)
    seen = exchange.view(tensor)
    assert isinstance(seen, tvm_ffi.Tensor)
    assert tuple(seen.shape) == (2, 3, 4)
    assert tuple(seen.strides) == (12, 4, 1)
    assert str(seen.dtype) == dtype
    assert seen.data_ptr() == tensor.data_ptr()
    assert (seen.device.type, seen.device.index) == (("cpu", 0) if device == "cpu" else ("ext_dev", int(device[-1])))


@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
@pytest.mark.parametrize("shape", [[5, 7], [], [100_000]])
def test_a_kernel_writes_to_it_in_order(device: str, shape: list[int], rng: np.random.Generator) -> None:
    paddle.set_device(device)
    values = np.float32(rng.standard_normal(shape))
    tensor = paddle.to_tensor(values) + 1
    seen = exchange.view(tensor)
    kernels.launch("negate", tensor.size, seen, tensor.size, T=seen.dtype)
    np.testing.assert_array_equal((tensor * 2).numpy(), (values + 1) * -2)


def test_a_view_keeps_the_memory() -> None:
    gc.collect()
    before = len(exchange._held)
    seen = exchange.view(paddle.full([1000], 3.0))
    assert len(exchange._held) == before + 1
    others = [paddle.full([1000], 7.0) for _ in range(20)]
    assert seen.data_ptr() not in {other.data_ptr() for other in others}
    del seen
    gc.collect()
    assert len(exchange._held) == before


def test_strides() -> None:
    seen = exchange.view(paddle.ones([4, 6])[1:, ::2])
    assert tuple(seen.shape) == (3, 3)
    assert tuple(seen.strides) == (6, 2)
