"""Mode ``runtime``: ordering, copies, memory and threads."""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from hardpoint import _discovery
from hardpoint._runtime import core
from hardpoint.check import direct, handles
from hardpoint.check.cases import Absent, Cases, expect

case = Cases("runtime")
names, run = case.names, case.run

ALIGNMENT = 64
#: Past the pieces in which drivers copy.
LARGE = (40 << 20) + 3
SIZES = (0, 1, 2, 3, 7, 15, 31, 63, 64, 65, 127, 255, 4095, 4096, 4097, 65537, 1048577)


def _bytes(count: int) -> torch.Tensor:
    return torch.randint(0, 256, (count,), dtype=torch.uint8)


def _module(device: str) -> Any:
    return getattr(torch, device)


@case
def copies_of_odd_sizes(device: str) -> str:
    """Host to device and back, byte for byte."""
    for size in (*SIZES, LARGE):
        data = _bytes(size)
        there = data.to(device)
        expect(torch.equal(there.cpu(), data), f"{size} bytes changed in a round trip")
        expect(torch.equal(there.clone().cpu(), data), f"{size} bytes changed in a copy on the device")
    return f"{len(SIZES) + 1} sizes up to {LARGE} bytes"


@case
def copies_at_odd_offsets(device: str) -> str:
    """Copies into and out of the middle of an allocation leave the bytes around it unchanged."""
    for size in (1, 3, 63, 4097):
        for offset in (0, 1, 3, 5, 63):
            base, other, right = (
                torch.zeros(size + 128, dtype=torch.uint8, device=where) for where in (device, device, "cpu")
            )
            data = _bytes(size)
            inside = slice(offset, offset + size)
            base[inside].copy_(data)
            right[inside] = data
            expect(torch.equal(base.cpu(), right), f"{size} bytes at {offset}: host to device")
            expect(torch.equal(base[inside].cpu(), data), f"{size} bytes at {offset}: device to host")
            shifted = other[offset + 1 : offset + 1 + size].copy_(base[inside])
            expect(torch.equal(shifted.cpu(), data), f"{size} at {offset}: on the device")
            expect(int(other.cpu().long().sum()) == int(data.long().sum()), f"{size} at {offset}: wrote outside")
    return "20 ranges, three directions"


@case
def copies_between_layouts_and_dtypes(device: str) -> str:
    """Strided and converting copies."""
    base = torch.randn(6, 5, 4)
    views: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda t: t.transpose(0, 2),
        lambda t: t[::2, :, 1],
        lambda t: t[:1].expand(3, 5, 4),
    ]
    for view in views:
        expect(torch.equal(view(base.to(device)).cpu(), view(base)), "a view changed on the way to the host")
        expect(torch.equal(view(base).to(device).cpu(), view(base)), "a view changed on the way to the device")
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.bool):
        expect(torch.equal(base.to(device).to(dtype).cpu(), base.to(dtype)), f"float32 to {dtype}")
    return "3 layouts, 5 dtypes"


@case
def copies_between_devices(device: str) -> str:
    """Copies between every pair of devices."""
    count = torch.accelerator.device_count()
    if count < 2:
        raise Absent("there is one device")
    data = _bytes(100_003)
    for source in range(count):
        for target in range(count):
            moved = data.to(f"{device}:{source}").to(f"{device}:{target}")
            expect(moved.device.index == target and torch.equal(moved.cpu(), data), f"{source} to {target}")
    return f"{count} devices"


@case
def pinned_copies(device: str) -> str:
    """Asynchronous copies from and to pinned memory are complete after synchronization."""
    source = _bytes(1 << 20).pin_memory()
    expect(source.is_pinned(), "pin_memory() did not pin")
    locked = "pinned" in _discovery.choose().extensions
    target = torch.empty_like(source).pin_memory()
    there = source.to(device, non_blocking=True)
    target.copy_(there, non_blocking=True)
    torch.accelerator.synchronize()
    expect(torch.equal(source, target), "different after synchronization")
    return "1 MiB round trip" if locked else "1 MiB round trip in pageable memory: no pinned extension"


@case
def alignment(device: str) -> str:
    """Every allocation starts at a multiple of the contract's alignment."""
    held = [torch.empty(size, dtype=torch.uint8, device=device) for size in SIZES[1:] for _ in range(3)]
    bad = [t.numel() for t in held if t.data_ptr() % ALIGNMENT]
    expect(not bad, f"allocations of {bad} bytes are not aligned to {ALIGNMENT}")
    addresses = sorted((t.data_ptr(), t.data_ptr() + t.numel()) for t in held)
    expect(all(a[1] <= b[0] for a, b in itertools.pairwise(addresses)), "allocations overlap")
    return f"{len(held)} allocations, {ALIGNMENT} bytes"


@case
def allocator_stress(device: str) -> str:
    """Allocations of random sizes do not overwrite each other."""
    chance = random.Random(7)
    held: list[tuple[int, torch.Tensor]] = []
    for turn in range(1500):
        if held and (len(held) > 60 or chance.random() < 0.4):
            value, tensor = held.pop(chance.randrange(len(held)))
            if turn % 5 == 0:
                expect(bool((tensor.cpu() == value).all()), f"turn {turn}: memory was overwritten")
        else:
            value = turn % 251
            size = int(2 ** chance.uniform(0, 20))
            held.append((value, torch.full((size,), value, dtype=torch.uint8, device=device)))
    for value, tensor in held:
        expect(bool((tensor.cpu() == value).all()), "memory was overwritten")
    return "1500 turns"


@case
def no_leak(device: str) -> str:
    """Memory in use returns to its previous value, and the cache can be emptied."""
    torch.accelerator.synchronize()
    before = torch.accelerator.memory_allocated()
    for _ in range(20):
        x = torch.randn(1000, device=device, requires_grad=True)
        (x * 2 + x).sum().backward()
    del x
    torch.accelerator.synchronize()
    after = torch.accelerator.memory_allocated()
    expect(after == before, f"{after - before} bytes more in use")
    _module(device).empty_cache()
    reserved = torch.accelerator.memory_reserved()
    big = torch.empty(64 << 20, dtype=torch.uint8, device=device)
    del big
    torch.accelerator.synchronize()
    _module(device).empty_cache()
    expect(torch.accelerator.memory_reserved() <= reserved, "empty_cache() freed nothing")
    return "0 bytes after 20 passes"


@case
def memory_is_returned(device: str) -> str:
    """Unused memory returns to the device, according to the plug-in's own figures."""
    module = _module(device)
    if not module.mem_get_info()[1]:
        raise Absent("the plug-in does not report its memory")
    free: list[int] = []
    for _ in range(4):
        held = [torch.ones(16 << 20, dtype=torch.uint8, device=device) for _ in range(3)]
        del held
        torch.accelerator.synchronize()
        module.empty_cache()
        free.append(module.mem_get_info()[0])
    expect(free[-1] >= free[0], f"{free[0] - free[-1]} bytes were lost in 3 rounds of 48 MiB: free() leaks")
    return f"{free[-1] / 2**20:.0f} MiB free after each of 4 rounds"


@case
def handles_are_released(device: str) -> str:
    """Destroying events, streams and blocks releases their memory, threads and files."""
    plugin = _discovery.choose()
    python = getattr(plugin, "python", None)
    found = handles.of_python(python) if python is not None else handles.of_library(plugin.origin)
    problems = [problem for problem in found.values() if problem]
    expect(not problems, "; ".join(problems))
    return ", ".join(found)


@case
def slots_called_directly(device: str) -> str:
    """The rules of plugin.h that pools of streams and events and the caching allocator hide from programs."""
    plugin = _discovery.choose()
    python = getattr(plugin, "python", None)
    found = direct.problems(direct.Python(python)) if python is not None else direct.of_library(plugin.origin)
    wrong = [f"{name.replace('_', ' ')}: {problem}" for name, problem in found.items() if problem]
    expect(not wrong, "; ".join(wrong))
    return ", ".join(name.replace("_", " ") for name, problem in found.items() if problem is not None)


@case
def fork(device: str) -> str:
    """A child process that drops tensors and ends normally disturbs neither itself nor its parent."""
    held = torch.arange(1000.0, device=device)
    torch.accelerator.synchronize()
    child = os.fork()
    if child == 0:
        try:
            del held
            gc.collect()
            atexit._run_exitfuncs()
        except BaseException:
            os._exit(1)
        os._exit(0)
    end = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.01)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise AssertionError("the child did not end within 60 s")
    status = os.waitstatus_to_exitcode(ended[1])
    expect(status == 0, f"the child ended with status {status}")
    expect(bool(((held + 1).cpu() == torch.arange(1, 1001.0)).all()), "wrong values in the parent afterwards")
    return "the child ended, and the parent goes on"


@case
def peak_memory(device: str) -> str:
    """The allocator reports the peak of memory in use."""
    torch.accelerator.reset_peak_memory_stats()
    base = torch.accelerator.memory_allocated()
    held = torch.empty(3 << 20, dtype=torch.uint8, device=device)
    del held
    peak = torch.accelerator.max_memory_allocated()
    expect(peak >= base + (3 << 20), f"peak {peak}, expected at least {base + (3 << 20)}")
    return f"{peak} bytes"


@case
def order_in_a_stream(device: str) -> str:
    """Work on a stream runs in the order of submission."""
    x = torch.zeros(1 << 18, device=device)
    for step in range(50):
        x.mul_(2).add_(step)
    right = 0.0
    for step in range(50):
        right = float(torch.tensor(right) * 2 + step)
    expect(bool((x.cpu() == right).all()), "operations ran out of order")
    return "100 operations"


@case
def order_between_streams(device: str) -> str:
    """A stream that waits for an event sees all work before it."""
    module = _module(device)
    first, second = module.Stream(), module.Stream()
    for turn in range(20):
        with first:
            x = torch.full((1 << 18,), float(turn), device=device)
            for _ in range(5):
                x.add_(1)
            event = torch.Event(device)
            event.record(first)
        with second:
            second.wait_event(event)
            y = x * 2
        second.synchronize()
        expect(bool((y.cpu() == 2.0 * (turn + 5)).all()), f"turn {turn}: the second stream did not wait")
    return "20 hand-overs"


def _pinned_numbers(count: int = 4) -> list[torch.Tensor]:
    return [torch.full((1 << 18,), float(number)).pin_memory() for number in range(count)]


@case
def order_of_copies(device: str) -> str:
    """Copies on a stream run in the order of submission, whatever their direction."""
    stream, numbers = _module(device).Stream(), _pinned_numbers()
    x, y = (torch.full((1 << 18,), -1.0, device=device) for _ in range(2))
    back = torch.empty(1 << 18).pin_memory()
    torch.accelerator.synchronize()
    for number in numbers:
        with stream:
            x.copy_(number, non_blocking=True)
            y.copy_(x)
            back.copy_(y, non_blocking=True)
        stream.synchronize()
        expect(torch.equal(back, number), f"a copy of {number[0].item():g} ran out of order")
        with stream:
            y.copy_(number, non_blocking=True)
            y.zero_()
        stream.synchronize()
        expect(not y.cpu().any(), "zero_() ran out of order")
    return f"{3 * len(numbers)} copies"


@case
def copies_between_streams(device: str) -> str:
    """A stream that waits for an event sees the copies before it."""
    module, numbers = _module(device), _pinned_numbers()
    first, second = module.Stream(), module.Stream()
    x, y = (torch.full((1 << 18,), -1.0, device=device) for _ in range(2))
    torch.accelerator.synchronize()
    for number in numbers:
        with first:
            for earlier in (*numbers, number):
                x.copy_(earlier, non_blocking=True)
            event = torch.Event(device)
            event.record(first)
        with second:
            second.wait_event(event)
            y.copy_(x)
        second.synchronize()
        expect(torch.equal(y.cpu(), number), f"a copy of {number[0].item():g}: the second stream did not wait")
    return f"{len(numbers)} hand-overs"


@case
def memory_of_another_stream(device: str) -> str:
    """record_stream holds memory until the other stream has finished with it."""
    module = _module(device)
    side = module.Stream()
    for turn in range(20):
        x = torch.full((1 << 18,), float(turn), device=device)
        event = torch.Event(device)
        event.record(module.current_stream())
        with side:
            side.wait_event(event)
            y = x.clone()
            for _ in range(4):
                y.add_(x)
        x.record_stream(side)
        del x
        z = torch.full((1 << 18,), -1.0, device=device)
        side.synchronize()
        expect(bool((y.cpu() == 5.0 * turn).all()), f"turn {turn}: memory was reused too early")
        del z
    return "20 turns"


@case
def events(device: str) -> str:
    """Events are complete after synchronization, and elapsed times are not negative."""
    start, end = torch.Event(device, enable_timing=True), torch.Event(device, enable_timing=True)
    expect(torch.Event(device).query(), "an unrecorded event is not complete")
    began = time.monotonic()
    start.record()
    x = torch.ones(1 << 20, device=device)
    for _ in range(5):
        x = x + 1
    end.record()
    end.synchronize()
    expect(start.query() and end.query(), "an event is not complete after synchronization")
    try:
        spent = start.elapsed_time(end)
    except RuntimeError as error:
        return f"no timing: {error}"
    passed = 1000 * (time.monotonic() - began)
    expect(0 <= spent <= 1.5 * passed + 1, f"{spent} ms between two events in {passed:.3f} ms")
    return f"{spent:.3f} ms"


@case
def stream_query(device: str) -> str:
    """A synchronized stream is idle."""
    stream = _module(device).Stream()
    with stream:
        x = torch.ones(1 << 20, device=device) + 1
    stream.synchronize()
    expect(stream.query(), "not idle after synchronization")
    expect(x[-1].item() == 2, "wrong value")
    return "idle"


def _in_threads(work: Callable[[int], None], count: int = 4) -> None:
    barrier = threading.Barrier(count)

    def start_together(number: int) -> None:
        barrier.wait()
        work(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(start_together, range(count)))


@case
def threads(device: str) -> str:
    """Concurrent threads compute and copy independently."""

    def work(number: int) -> None:
        for turn in range(40):
            data = torch.full((1000 + 37 * number,), float(number * 100 + turn))
            result = (data.to(device) * 2 + 1).cpu()
            expect(torch.equal(result, data * 2 + 1), f"thread {number}, turn {turn}")

    _in_threads(work)
    return "4 threads, 40 turns"


@case
def threads_with_streams(device: str) -> str:
    """Each thread has its own current stream and device."""
    count = torch.accelerator.device_count()

    def work(number: int) -> None:
        index = number % count
        module = _module(device)
        module.set_device(index)
        stream = module.Stream(device=index)
        with stream:
            for turn in range(20):
                x = torch.full((1 << 14,), float(number), device=f"{device}:{index}")
                for _ in range(5):
                    x = x + 1
                stream.synchronize()
                expect(bool((x.cpu() == number + 5).all()), f"thread {number}, turn {turn}")
        expect(module.current_device() == index, "another thread changed the current device")

    _in_threads(work)
    return "4 threads, 20 turns"


@case
def threads_and_the_allocator(device: str) -> str:
    """Concurrent allocations do not overlap."""

    def work(number: int) -> None:
        chance = random.Random(number)
        for turn in range(150):
            size = int(2 ** chance.uniform(4, 16))
            x = torch.full((size,), number, dtype=torch.uint8, device=device)
            if turn % 7 == 0:
                expect(bool((x.cpu() == number).all()), f"thread {number}, turn {turn}")

    _in_threads(work)
    return "4 threads, 150 turns"


@case
def backward_in_threads(device: str) -> str:
    """Concurrent backward passes."""

    def work(number: int) -> None:
        for _ in range(10):
            x = torch.full((64,), float(number + 1), device=device, requires_grad=True)
            (x * x).sum().backward()
            expect(x.grad is not None and bool((x.grad.cpu() == 2.0 * (number + 1)).all()), f"thread {number}")

    _in_threads(work)
    return "4 threads"


@case
def destroyed_while_busy(device: str) -> str:
    """Events that are dropped while work is pending, and copies from dropped memory, do not disturb the work."""
    module = _module(device)
    side = module.Stream()
    for turn in range(10):
        with side:
            x = torch.full((1 << 18,), float(turn), device=device)
            for _ in range(4):
                x = x + 1
                event = torch.Event(device)
                event.record(side)
                del event
        side.synchronize()
        expect(bool((x.cpu() == turn + 4).all()), f"turn {turn}: wrong values")
    return "40 events"


@case
def copies_wait_for_work(device: str) -> str:
    """A copy to the host on a stream sees all work before it on that stream."""
    module = _module(device)
    for turn in range(8):
        stream = module.Stream()
        target = torch.zeros(1 << 18).pin_memory()
        with stream:
            x = torch.zeros(1 << 18, device=device)
            for _ in range(6):
                x.add_(1)
            target.copy_(x, non_blocking=True)
            x.fill_(-1)
        stream.synchronize()
        expect(bool((target == 6).all()), f"turn {turn}: the copy was too early or too late")
    return "8 copies"


@case
def timed_wait(device: str) -> str:
    """A wait with a timeout returns when the work is done, not when the timeout expires."""
    before = core.timeout_ms()
    core.set_timeout_ms(60_000)
    try:
        start = time.monotonic()
        torch.ones(1 << 16, device=device).add_(1)
        torch.accelerator.synchronize()
        spent = time.monotonic() - start
    finally:
        core.set_timeout_ms(before)
    expect(spent < 30, f"{spent:.1f} s")
    return f"{1000 * spent:.1f} ms"


@case
def seeds(device: str) -> str:
    """Random numbers are reproducible from a seed and do not touch the CPU's generator."""
    torch.manual_seed(5)
    state = torch.get_rng_state()
    a = torch.rand(1000, device=device).cpu()
    expect(torch.equal(torch.get_rng_state(), state), "the CPU's generator changed")
    b = torch.rand(1000, device=device).cpu()
    torch.manual_seed(5)
    expect(torch.equal(torch.rand(1000, device=device).cpu(), a), "different numbers for the same seed")
    expect(not torch.equal(a, b), "the same numbers twice")
    expect(0.4 < a.mean().item() < 0.6 and a.min() >= 0 and a.max() < 1, "not uniform on [0, 1)")
    return "reproducible"
