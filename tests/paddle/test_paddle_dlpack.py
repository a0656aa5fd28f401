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


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_capsule_shares_the_memory(dtype: str) -> None:
    paddle.set_device("sim:1")
    tensor = (paddle.arange(24) % 5).reshape([2, 3, 4]).astype(dtype)
    back = paddle.from_dlpack(paddle.to_dlpack(tensor))
    assert (back.data_ptr(), str(back.place), back.dtype) == (tensor.data_ptr(), "Place(sim:1)", tensor.dtype)
    comparable = "float32" if dtype == "bfloat16" else dtype
    np.testing.assert_array_equal(back.astype(comparable).numpy(), tensor.astype(comparable).numpy())
    back[0] = 1
    assert tensor.astype(comparable).numpy()[0].tolist() == np.ones([3, 4]).tolist()


@pytest.mark.parametrize("shape", [[], [0, 10], [10, 10]])
def test_shapes_and_strides_of_imports(shape: list[int]) -> None:
    paddle.set_device("sim:0")
    tensor = paddle.rand(shape)
    if len(shape) == 2:
        tensor = tensor[::2, ::2]
    back = paddle.utils.dlpack.from_dlpack(paddle.utils.dlpack.to_dlpack(tensor))
    assert (back.shape, back.strides, back.data_ptr()) == (tensor.shape, tensor.strides, tensor.data_ptr())
    np.testing.assert_array_equal(back.numpy(), tensor.numpy())


def test_memory_lives_as_long_as_the_import() -> None:
    paddle.set_device("sim:0")
    gc.collect()
    before = len(dlpack._held)
    for _ in range(3):
        capsule = paddle.to_dlpack(paddle.full([1000], 3.0))
        back = paddle.from_dlpack(capsule)
        others = [paddle.full([1000], 7.0) for _ in range(20)]
        assert back.data_ptr() not in {other.data_ptr() for other in others}
        assert float(back.sum()) == 3000
    del capsule, back
    gc.collect()
    assert len(dlpack._held) == before
    paddle.to_dlpack(paddle.ones([3]))  # never imported
    gc.collect()
    assert len(dlpack._held) == before


def test_copies_and_other_devices() -> None:
    paddle.set_device("sim:0")
    tensor = paddle.arange(4.0)
    copied = paddle.from_dlpack(tensor, copy=True)
    assert str(copied.place) == "Place(sim:0)"
    assert copied.data_ptr() != tensor.data_ptr()
    on_cpu = paddle.from_dlpack(tensor, device="cpu")
    assert on_cpu.place.is_cpu_place()
    assert on_cpu.tolist() == copied.tolist() == [0, 1, 2, 3]
    assert np.from_dlpack(on_cpu).tolist() == [0, 1, 2, 3]
    assert str(paddle.from_dlpack(tensor, device="sim:1").place) == "Place(sim:1)"
    with pytest.raises(BufferError, match="without a copy"):
        paddle.from_dlpack(tensor, device="cpu", copy=False)
    with pytest.raises(BufferError, match="detach"):
        paddle.ones([2]).requires_grad_().__dlpack__()
    # What is on the host stays there.
    assert paddle.from_dlpack(np.arange(3)).place.is_cpu_place()


def test_static_tensor() -> None:
    paddle.enable_static()
    try:
        tensor = paddle.base.core.DenseTensor()
        tensor.set(np.arange(6).reshape(2, 3), paddle.CustomPlace("sim", 1))
        back = paddle.from_dlpack(paddle.to_dlpack(tensor))
        assert isinstance(back, paddle.base.core.DenseTensor)
        assert (back._ptr(), str(back._place())) == (tensor._ptr(), "Place(sim:1)")
        assert np.array(back).tolist() == [[0, 1, 2], [3, 4, 5]]
    finally:
        paddle.disable_static()
