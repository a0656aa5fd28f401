"""Paddle tensors passed to TVM-FFI share their memory, on every device."""

from __future__ import annotations

import gc

import numpy as np
import paddle
import pytest
import tvm_ffi

from hardpoint.kernels.custom import PortableKernels
from hardpoint.paddle import dlpack

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
# Complex dtypes have no name in TVM-FFI.
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"]


@pytest.mark.parametrize("device", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_description(device: str, dtype: str) -> None:
    paddle.set_device(device)
    tensor = paddle.zeros([2, 3, 4]).astype(dtype)
    ffi_tensor = dlpack.view(tensor)
    assert isinstance(ffi_tensor, tvm_ffi.Tensor)
    assert tuple(ffi_tensor.shape) == (2, 3, 4)
    assert tuple(ffi_tensor.strides) == (12, 4, 1)
    assert str(ffi_tensor.dtype) == dtype
    assert ffi_tensor.data_ptr() == tensor.data_ptr()
    assert (ffi_tensor.device.type, ffi_tensor.device.index) == (
        ("cpu", 0) if device == "cpu" else ("ext_dev", int(device[-1]))
    )


@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
@pytest.mark.parametrize("shape", [[5, 7], [], [100_000]])
def test_kernel_writes_in_stream_order(device: str, shape: list[int], rng: np.random.Generator) -> None:
    paddle.set_device(device)
    values = np.float32(rng.standard_normal(shape))
    tensor = paddle.to_tensor(values) + 1
    ffi_tensor = dlpack.view(tensor)
    kernels.launch("negate", tensor.size, ffi_tensor, tensor.size, T=ffi_tensor.dtype)
    np.testing.assert_array_equal((tensor * 2).numpy(), (values + 1) * -2)


def test_view_keeps_the_memory_alive() -> None:
    gc.collect()
    before = len(dlpack._held)
    ffi_tensor = dlpack.view(paddle.full([1000], 3.0))
    assert len(dlpack._held) == before + 1
    others = [paddle.full([1000], 7.0) for _ in range(20)]
    assert ffi_tensor.data_ptr() not in {other.data_ptr() for other in others}
    del ffi_tensor
    gc.collect()
    assert len(dlpack._held) == before


def test_strides() -> None:
    ffi_tensor = dlpack.view(paddle.ones([4, 6])[1:, ::2])
    assert tuple(ffi_tensor.shape) == (3, 3)
    assert tuple(ffi_tensor.strides) == (6, 2)
