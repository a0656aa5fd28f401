"""DLPack with the device under its own name: views, not copies."""

from __future__ import annotations

from collections.abc import Callable
from subprocess import CompletedProcess

import numpy as np
import pytest
import torch
import tvm_ffi

RunPython = Callable[..., CompletedProcess[str]]
EXTENSION_DEVICE = 12


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_shares_memory(device: str, dtype: torch.dtype) -> None:
    x = torch.arange(6, device=f"{device}:1").reshape(2, 3).to(dtype)
    assert x.__dlpack_device__() == (EXTENSION_DEVICE, 1)
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.dtype == dtype
    assert y.data_ptr() == x.data_ptr()
    y[0, 0] = 1
    assert x[0, 0].item() == 1
    assert torch.equal(torch.from_dlpack(x.t()), x.t())


def test_capsules(device: str) -> None:
    x = torch.arange(4.0, device=device)
    y = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x[1:]))
    assert y.data_ptr() == x[1:].data_ptr()
    assert torch.from_dlpack(x.__dlpack__(stream=None)).tolist() == [0, 1, 2, 3]


def test_copies_between_devices(device: str) -> None:
    x = torch.arange(4.0, device=device)
    assert torch.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x, device="cpu").tolist() == [0, 1, 2, 3]
    moved = torch.from_dlpack(torch.arange(4.0), device=device)
    assert moved.device.type == device
    assert torch.equal(moved, x)
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="cpu", copy=False)


def test_work_is_done_for_a_consumer_without_a_stream(device: str) -> None:
    stream = torch.sim.Stream()
    with torch.sim.stream(stream):
        x = torch.ones(2048, 2048, device=device)
        for _ in range(4):
            x = x @ x / 2048
        x.__dlpack__(stream=None)
        assert stream.query()
    assert x.mean().item() == 1


def test_tensors_that_dlpack_cannot_express(device: str) -> None:
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(2, device=device, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="conjugate"):
        torch.ones(2, device=device, dtype=torch.complex64).conj().__dlpack__()


def test_tvm_ffi(device: str) -> None:
    x = torch.arange(6.0, device=f"{device}:1").reshape(2, 3)
    other = tvm_ffi.from_dlpack(x)
    assert tuple(other.shape) == (2, 3)
    back = torch.from_dlpack(other)
    assert back.data_ptr() == x.data_ptr()
    assert back.device == x.device


def test_numpy_refuses(device: str) -> None:
    x = torch.arange(3.0, device=device)
    with pytest.raises(BufferError, match=r"NumPy cannot read the memory of sim:0: copy the tensor"):
        np.from_dlpack(x)
    assert np.from_dlpack(x, device="cpu").tolist() == [0, 1, 2]
    assert x.numpy(force=True).tolist() == [0, 1, 2]
    assert np.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]


def test_cpu_tensors_are_untouched() -> None:
    x = torch.arange(3.0)
    assert x.__dlpack_device__() == (1, 0)
    assert torch.from_dlpack(x).data_ptr() == x.data_ptr()


@pytest.mark.slow
def test_paddle_tensor(run_python: RunPython) -> None:
    pytest.importorskip("paddle", reason="PaddlePaddle is not installed")
    program = """
        import torch, paddle
        x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], place=paddle.CustomPlace("sim", 1))
        assert x.__dlpack_device__() == (12, 1)
        y = torch.from_dlpack(x)
        assert str(y.device) == "sim:1" and y.data_ptr() == x.data_ptr()
        y += 1
        assert x.numpy().tolist() == [[2, 3], [4, 5]]
        del x
        assert y.tolist() == [[2, 3], [4, 5]]  # the memory lives as long as the view
        z = paddle.ones([2], dtype="float32").to("cpu")
        assert torch.from_dlpack(z).tolist() == [1, 1]
    """
    run_python(program, GLOG_minloglevel="2")


@pytest.mark.slow
def test_paddle_takes_torch_tensors(run_python: RunPython) -> None:
    pytest.importorskip("paddle", reason="PaddlePaddle is not installed")
    program = """
        import gc, torch, paddle
        from paddle.utils.dlpack import from_dlpack
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64):
            x = torch.arange(6, device="sim:1").reshape(2, 3).to(dtype)
            y = from_dlpack(x)
            assert str(y.place) == "Place(sim:1)" and y.data_ptr() == x.data_ptr(), y
            assert str(y.dtype).rpartition(".")[2] == str(dtype).rpartition(".")[2]
            values = y.astype("float32") if dtype == torch.bfloat16 else y  # NumPy has no bfloat16
            assert values.numpy().tolist() == x.tolist()
        x = torch.arange(6.0, device="sim:0").reshape(2, 3)
        y = from_dlpack(x.t())
        assert y.shape == [3, 2] and y.strides == [1, 3]
        y.add_(paddle.ones([1]))
        assert x.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert (y @ y.T).numpy().tolist() == (x.t() @ x).tolist()
        used = torch.sim.memory_allocated(0)
        del x
        gc.collect()
        assert torch.sim.memory_allocated(0) == used  # the Paddle tensor holds it
        assert y.numpy().tolist() == [[1, 4], [2, 5], [3, 6]]
        del y
        gc.collect()
        assert torch.sim.memory_allocated(0) < used
        assert from_dlpack(torch.zeros(0, 3, device="sim")).shape == [0, 3]
        assert from_dlpack(torch.tensor(2.0, device="sim")).item() == 2
        assert from_dlpack(torch.arange(3)).numpy().tolist() == [0, 1, 2]
        fresh = paddle.empty([4])  # an ordinary tensor again
        assert fresh.shape == [4]
    """
    run_python(program, GLOG_minloglevel="2")
