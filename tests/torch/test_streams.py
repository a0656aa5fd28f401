"""Streams and events: order, overlap, timing, threads."""

from __future__ import annotations

import threading

import pytest
import torch

import hardpoint.devices.sim

BIG = 8 << 20  # elements: far more than sim runs inline on the calling thread


def test_stream_identity():
    default = torch.sim.default_stream()
    assert torch.sim.current_stream() == default
    assert default.stream_id == 0
    stream = torch.sim.Stream()
    assert isinstance(stream, torch.Stream)
    assert stream != default
    assert stream.device == torch.device("sim:0")
    assert torch.sim.Stream(1).device == torch.device("sim:1")
    assert torch.Stream("sim:1").device == torch.device("sim:1")
    assert "device_type=sim" in repr(stream)


@pytest.mark.parametrize("use", [torch.sim.stream, lambda s: s])
def test_stream_context(use):
    stream = torch.sim.Stream()
    with use(stream):
        assert torch.sim.current_stream() == stream
        assert torch.accelerator.current_stream() == stream
    assert torch.sim.current_stream() == torch.sim.default_stream()


def test_stream_context_of_another_device():
    stream = torch.sim.Stream(1)
    with torch.sim.stream(stream):
        assert torch.sim.current_device() == 1
        assert torch.sim.current_stream(1) == stream
        assert torch.sim.current_stream(0) == torch.sim.default_stream(0)
    assert torch.sim.current_device() == 0
    assert torch.sim.current_stream(1) == torch.sim.default_stream(1)


def test_set_stream():
    stream = torch.sim.Stream()
    torch.sim.set_stream(stream)
    try:
        assert torch.sim.current_stream() == stream
        assert (torch.ones(3, device="sim") + 1).tolist() == [2, 2, 2]
    finally:
        torch.sim.set_stream(torch.sim.default_stream())


def test_no_stream_changes_nothing():
    with torch.sim.stream(None):
        assert torch.sim.current_stream() == torch.sim.default_stream()


def test_unknown_stream():
    foreign = torch.Stream(stream_id=999, device_index=0, device_type=torch.sim.current_stream().device_type)
    with pytest.raises(RuntimeError, match="sim:0 has no stream 999"):
        foreign.synchronize()


def test_event_types():
    event = torch.sim.Event()
    assert isinstance(event, torch.Event)
    assert isinstance(event, torch.sim.Event)
    assert event.query()
    event.synchronize()


def test_default_and_pool_streams_are_distinct():
    assert len({torch.sim.Stream().stream_id for _ in range(8)}) == 8


# ---- Order


def _slow_fill(value: float) -> torch.Tensor:
    """A tensor whose kernels are queued but not done."""
    x = torch.zeros(BIG, device="sim")
    x.fill_(value)
    return x


@pytest.mark.parametrize("how", ["wait_stream", "wait_event", "record_event", "event.wait"])
def test_order_across_streams(how):
    producer, consumer = torch.sim.Stream(), torch.sim.Stream()
    for value in (3.0, 5.0):
        with torch.sim.stream(producer):
            x = _slow_fill(value)
        if how == "wait_stream":
            consumer.wait_stream(producer)
        elif how == "record_event":
            consumer.wait_event(producer.record_event())
        else:
            event = torch.sim.Event()
            event.record(producer)
            consumer.wait_event(event) if how == "wait_event" else event.wait(consumer)
        with torch.sim.stream(consumer):
            y = x + 1
        x.record_stream(consumer)
        y.record_stream(torch.sim.current_stream())
        torch.sim.current_stream().wait_stream(consumer)
        assert y[0].item() == y[-1].item() == value + 1
        assert bool((y == value + 1).all())


def test_order_across_devices():
    first, second = torch.sim.Stream(0), torch.sim.Stream(1)
    with torch.sim.stream(first):
        x = _slow_fill(7.0)
    second.wait_event(first.record_event())
    with torch.sim.stream(second):
        y = x.to("sim:1", non_blocking=True)
        total = (y * 2)[::100000].sum()
    second.synchronize()
    assert total.item() == 14.0 * len(range(0, BIG, 100000))


def test_query_tells_unfinished_work():
    stream = torch.sim.Stream()
    with hardpoint.devices.sim.fault("hang:operator=aten::fill_"):  # hangs until the fault is cleared
        with torch.sim.stream(stream):
            x = torch.empty(BIG, device="sim")
            x.fill_(2.0)
            event = stream.record_event()
        assert not stream.query()
        assert not event.query()
        assert torch.sim.default_stream().query()
    stream.synchronize()
    assert stream.query()
    assert event.query()
    assert x[-1].item() == 2.0


def test_synchronize_one_stream_does_not_wait_for_another():
    busy, free = torch.sim.Stream(), torch.sim.Stream()
    with hardpoint.devices.sim.fault("hang:operator=aten::fill_"):
        with torch.sim.stream(busy):
            x = torch.empty(BIG, device="sim")
            x.fill_(2.0)
        with torch.sim.stream(free):
            assert (torch.ones(4, device="sim") * 3).tolist() == [3, 3, 3, 3]
        free.synchronize()
        assert not busy.query()
    busy.synchronize()


@pytest.mark.parametrize(
    "wait", [torch.sim.synchronize, torch.accelerator.synchronize, lambda: torch.sim.synchronize(0)]
)
def test_synchronize_device(wait):
    streams = [torch.sim.Stream() for _ in range(3)]
    kept = []
    for stream in streams:
        with torch.sim.stream(stream):
            kept.append(_slow_fill(1.0))
    wait()
    assert all(stream.query() for stream in streams)


# ---- Timing


def test_elapsed_time():
    start, end = (torch.sim.Event(enable_timing=True) for _ in range(2))
    start.record()
    x = _slow_fill(1.0)
    for _ in range(4):
        x.mul_(1.5)
    end.record()
    end.synchronize()
    milliseconds = start.elapsed_time(end)
    assert 0.5 < milliseconds < 60000
    assert end.elapsed_time(start) == pytest.approx(-milliseconds)


def test_elapsed_time_needs_finished_events():
    start, end = (torch.Event("sim", enable_timing=True) for _ in range(2))
    x = torch.zeros(BIG, device="sim")
    start.record()
    with hardpoint.devices.sim.fault("hang:operator=aten::fill_"):
        x.fill_(1.0)
        end.record()
        with pytest.raises(RuntimeError, match="must be completed"):  # torch's check
            start.elapsed_time(end)
    assert x[0].item() == 1.0
    end.synchronize()
    assert start.elapsed_time(end) > 0


def test_elapsed_time_needs_timing():
    plain, timed = torch.sim.Event(), torch.sim.Event(enable_timing=True)
    plain.record()
    timed.record()
    for start, end in ((plain, timed), (timed, plain)):
        with pytest.raises((RuntimeError, ValueError), match="enable_timing=True"):
            start.elapsed_time(end)


def test_elapsed_time_needs_records():
    start, end = (torch.sim.Event(enable_timing=True) for _ in range(2))
    with pytest.raises((RuntimeError, ValueError), match="recorded"):
        start.elapsed_time(end)


def test_event_can_be_recorded_again():
    event = torch.sim.Event()
    for value in (1.0, 2.0):
        x = _slow_fill(value)
        event.record()
        event.synchronize()
        assert event.query()
        assert x[-1].item() == value


# ---- Memory and streams


def test_record_stream_keeps_memory_until_the_stream_is_done():
    other = torch.sim.Stream()
    x = torch.ones(BIG, device="sim")
    address = x.data_ptr()
    torch.sim.synchronize()
    with hardpoint.devices.sim.fault("hang:operator=aten::add"):
        with torch.sim.stream(other):
            y = x + 1  # blocks until the fault is cleared
        x.record_stream(other)
        del x
        again = torch.empty(BIG, device="sim")
        assert again.data_ptr() != address
        again.fill_(99.0)
    other.synchronize()
    assert y[0].item() == y[-1].item() == 2.0


def test_memory_is_reused_on_its_own_stream():
    x = torch.ones(BIG, device="sim")
    address = x.data_ptr()
    del x
    assert torch.empty(BIG, device="sim").data_ptr() == address


# ---- Overlapped copies


def keep_busy() -> None:
    """Queue work that takes longer than the calls in a test."""
    square = torch.ones(1024, 1024, device="sim")
    torch.sim.synchronize()
    for _ in range(4):
        square @ square


def test_non_blocking_copy_to_the_device():
    host = torch.arange(BIG, dtype=torch.float32).pin_memory()
    keep_busy()
    copied = host.to("sim", non_blocking=True)
    event = torch.sim.current_stream().record_event()
    ready_at_once = event.query()
    event.synchronize()
    assert not ready_at_once
    assert event.query()
    assert torch.equal(copied.cpu(), host)


def test_non_blocking_copy_to_the_host():
    source = torch.arange(BIG, dtype=torch.float32, device="sim")
    target = torch.zeros(BIG).pin_memory()
    keep_busy()
    target.copy_(source, non_blocking=True)
    event = torch.sim.current_stream().record_event()
    ready_at_once = event.query()
    event.synchronize()
    assert not ready_at_once
    assert torch.equal(target, torch.arange(BIG, dtype=torch.float32))


@pytest.mark.parametrize("size", [4, 1 << 20])
def test_non_blocking_copy_of_pageable_memory_may_be_overwritten(size):
    host = torch.arange(size, dtype=torch.float32)
    expected = host.clone()
    copied = host.to("sim", non_blocking=True)
    host.zero_()
    assert torch.equal(copied.cpu(), expected)


def test_pinned_source_may_be_freed_at_once():
    copies = []
    for value in range(6):
        pinned = torch.full((1 << 20,), float(value)).pin_memory()
        copies.append(pinned.to("sim", non_blocking=True))
        del pinned
    assert [(c.min().item(), c.max().item()) for c in copies] == [(float(v), float(v)) for v in range(6)]


@pytest.mark.parametrize("view", [lambda t: t.t(), lambda t: t[::2], lambda t: t[:, 3:5]])
def test_non_blocking_copy_of_pinned_views(view):
    pinned = torch.arange(64.0).reshape(8, 8).pin_memory()
    copied = view(pinned).to("sim", non_blocking=True)
    torch.sim.synchronize()
    assert torch.equal(copied.cpu(), view(pinned))


def test_non_blocking_copy_that_converts():
    pinned = torch.arange(1000).pin_memory()
    copied = pinned.to("sim", dtype=torch.float16, non_blocking=True)
    assert torch.equal(copied.cpu(), torch.arange(1000).half())


# ---- Threads


def _work(index: int, results: dict[int, torch.Tensor], errors: list[BaseException]) -> None:
    try:
        torch.sim.set_device(index)
        stream = torch.sim.Stream(index)
        with torch.sim.stream(stream):
            x = torch.full((64, 64), 0.01, device="sim")
            for _ in range(50):
                x = (x @ x + 0.5).relu() * 0.5 + index
                x = x / x.abs().max()
            results[index] = x.cpu()
    except BaseException as error:
        errors.append(error)


def _expected(index: int) -> torch.Tensor:
    x = torch.full((64, 64), 0.01)
    for _ in range(50):
        x = (x @ x + 0.5).relu() * 0.5 + index
        x = x / x.abs().max()
    return x


def test_two_devices_from_two_threads():
    results: dict[int, torch.Tensor] = {}
    errors: list[BaseException] = []
    threads = [threading.Thread(target=_work, args=(i, results, errors)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for index in range(2):
        torch.testing.assert_close(results[index], _expected(index))


def test_threads_have_their_own_current_stream():
    stream = torch.sim.Stream()
    seen = []
    with torch.sim.stream(stream):
        thread = threading.Thread(target=lambda: seen.append(torch.sim.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.sim.default_stream()]
