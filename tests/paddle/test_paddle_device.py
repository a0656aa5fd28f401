"""The device in Paddle: names, places, copies, streams, memory."""

from __future__ import annotations

import ctypes
import resource

import numpy as np
import paddle
import pytest

import hardpoint
import hardpoint.paddle


def test_device_is_listed():
    assert paddle.device.get_all_custom_device_type() == ["sim"]
    assert paddle.device.get_available_custom_device() == ["sim:0", "sim:1"]
    assert hardpoint.paddle.device_names() == ["sim"]
    assert hardpoint.mounted() == ["sim"]


def test_add_runs_on_its_place(counted):
    x = paddle.to_tensor([1.0, 2.0])
    y = x + x
    assert str(y.place) == "Place(sim:0)"
    assert y.tolist() == [2.0, 4.0]
    assert counted()["phi::add"] == {"vendor": 1}


def test_two_devices(rng):
    data = rng.standard_normal((5, 7)).astype("float32")
    first = paddle.to_tensor(data)
    paddle.set_device("sim:1")
    second = paddle.to_tensor(data) * 2
    assert (str(first.place), str(second.place)) == ("Place(sim:0)", "Place(sim:1)")
    moved = first._copy_to(paddle.CustomPlace("sim", 1), True)
    assert str((moved + second).place) == "Place(sim:1)"
    np.testing.assert_allclose((moved + second).numpy(), data * 3, rtol=1e-6)
    np.testing.assert_array_equal(second._copy_to(paddle.CustomPlace("sim", 0), True).cpu().numpy(), data * 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"])
def test_round_trip(rng, dtype):
    data = (rng.standard_normal((3, 4)) * 50).astype(dtype)
    np.testing.assert_array_equal(paddle.to_tensor(data).numpy(), data)


def test_streams_and_events(rng):
    data = rng.standard_normal(100_000).astype("float32")
    x = paddle.to_tensor(data)
    stream = paddle.device.Stream("sim:0")
    event = paddle.device.Event()
    y = x * 2
    event.record()
    stream.wait_event(event)
    event.synchronize()
    assert event.query()
    stream.synchronize()
    paddle.device.synchronize("sim:0")
    np.testing.assert_array_equal(y.numpy(), data * 2)


def test_out_of_memory():
    with pytest.raises(MemoryError, match="Out of memory error on sim:0"):
        paddle.empty([1 << 40])
    assert (paddle.ones([2]) + 1).tolist() == [2, 2]


def test_unknown_table_size_is_rejected():
    from hardpoint.paddle import _adapter

    adapter = _adapter.load()
    assert [adapter.known_interface(size) for size in (912, 920, 976, 1032, 1128, 1136)] == [
        *(False, True, True, True, True, False)
    ]
    table = (ctypes.c_size_t * 300)(2000)
    params = (ctypes.c_size_t * 12)(96, ctypes.addressof(table))
    with pytest.raises(RuntimeError, match="2000 bytes, which matches none of Paddle"):
        adapter.fill_interface(ctypes.addressof(params), "sim")
    assert list(table)[1:] == [0] * 299
    assert list(params)[2:] == [0] * 10


@pytest.mark.parametrize("size", [920, 976, 1032])
def test_nothing_is_written_past_an_older_table(size):
    from hardpoint.paddle import _adapter

    words = size // 8
    table = (ctypes.c_size_t * 300)(size)
    params = (ctypes.c_size_t * 12)(96, ctypes.addressof(table))
    _adapter.load().fill_interface(ctypes.addressof(params), "sim")
    assert table[1] != 0
    assert list(table)[words:] == [0] * (300 - words)
    # The slots that Paddle requires, and the last one common to all versions.
    slots = {"set_device": 4, "create_event": 11, "allocate": 27, "copy_h2d": 34, "count": 50, "capability": 59}
    assert all(table[slot] != 0 for slot in slots.values())
    assert list(table)[60:] == [0] * 240


def test_copies_of_small_tensors_start_no_thread() -> None:
    tensor = paddle.base.core.DenseTensor()
    tensor.set(np.float32([[1, 2], [3, 4]]), paddle.CustomPlace("sim", 1))
    assert tensor._get_float_element(2) == 3
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for i in range(200):
        tensor._set_float_element(2, float(i))
        assert tensor._get_float_element(2) == i
    # The thread that Paddle starts for each copy would be waited for, some 600 times.
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 200
    assert np.array(tensor).tolist() == [[1, 2], [199, 4]]
