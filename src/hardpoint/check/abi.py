"""Mode ``abi``: slots of the plug-in contract, and its edge cases."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch

import hardpoint
from hardpoint import _discovery, ops
from hardpoint._runtime import ABI, core
from hardpoint.check import slots
from hardpoint.check.cases import Absent, Cases, expect

case = Cases("abi")
names, run = case.names, case.run


@cache
def _plugin() -> Any:
    return _discovery.choose()


@cache
def _filled() -> frozenset[str]:
    python = getattr(_plugin(), "python", None)
    found = slots.filled_by_python(python) if python is not None else slots.filled_by_library(_plugin().origin)
    return frozenset(found)


def _rejection(call: Callable[[], Any], accepted: str, error_type: type[RuntimeError] = RuntimeError) -> str:
    """The message of the error that a call raises. Fails with ``accepted`` if it raises none."""
    try:
        call()
    except error_type as error:
        return str(error)
    raise AssertionError(accepted)


def _slot_check(name: str, required: bool) -> None:
    def check(device: str) -> str:
        if name in _filled():
            return "present"
        if required:
            raise AssertionError("a required slot is empty")
        extension = name.split(".")[0]
        raise Absent(f"absent: {slots.INSTEAD.get(name) or slots.INSTEAD[extension]}")

    case.checks[f"slot {name}"] = check


for _name in slots.REQUIRED:
    _slot_check(_name, True)
for _name in slots.OPTIONAL:
    _slot_check(_name, False)
for _extension, _slots in slots.EXTENSIONS.items():
    for _slot in _slots:
        _slot_check(f"{_extension}.{_slot}", False)


@case
def version(device: str) -> str:
    """The plug-in reports its ABI minor version."""
    return f"plug-in {ABI[0]}.{_plugin().abi_minor}, Hardpoint {ABI[0]}.{ABI[1]}"


@case
def extensions_are_complete(device: str) -> str:
    """An extension fills every slot that is not optional."""
    for extension, each in slots.EXTENSIONS.items():
        filled = {s for s in each if f"{extension}.{s}" in _filled()}
        missing = [s for s in each if s not in filled and f"{extension}.{s}" not in slots.INSTEAD]
        expect(not filled or not missing, f"{extension} has no {', '.join(missing)}")
    return ", ".join(_plugin().extensions)


@case
def kernels(device: str) -> str:
    """The standard operators that the plug-in has kernels for."""
    known = [op.name for op in ops.all_ops() if _plugin().has_kernel(op.name)]
    return f"{len(known)}: {', '.join(known)}" if known else "none"


@case
def compiler(device: str) -> str:
    """The compiler rejects an invalid program with a message."""
    found = core.compiler(device, 0)
    if found is None:
        raise Absent(f"absent: {slots.INSTEAD['compiler']}")
    message = _rejection(lambda: core.compile(device, 0, "not a program", ""), "an invalid program compiled")
    expect(message.strip(), "the error message is empty")
    return f"dialect {found[0]}, {found[1]}"


@case
def device_count(device: str) -> str:
    """torch, the plug-in and Hardpoint report the same number of devices."""
    count = torch.accelerator.device_count()
    expect(count == _plugin().device_count == len(hardpoint.devices(device)), "device counts differ")
    expect(count > 0, "there is no device")
    return str(count)


@case
def bad_device_index(device: str) -> str:
    """A device index out of range is rejected, and the next call works."""
    for index in (torch.accelerator.device_count(), 127):
        name = f"{device}:{index}"
        message = _rejection(partial(torch.ones, 1, device=name), f"{name} was accepted")
        expect(str(index) in message, f"the message does not name the device: {message}")
    expect(torch.ones(1, device=device).item() == 1, "the device is not usable afterwards")
    return "rejected"


@case
def zero_bytes(device: str) -> str:
    """Empty tensors can be created, copied and used, and allocate nothing."""
    before = torch.accelerator.memory_allocated()
    empty = torch.empty(0, 5, device=device)
    expect(torch.accelerator.memory_allocated() == before, "an empty tensor allocates memory")
    expect(empty.cpu().shape == (0, 5) and (empty + 1).shape == (0, 5), "wrong shape")
    expect(torch.empty(0).to(device).clone().numel() == 0, "not empty")
    return "no memory"


@case
def out_of_memory(device: str) -> str:
    """Too large an allocation raises torch.OutOfMemoryError, and the device stays usable."""
    for count in (1 << 50, 1 << 60):
        allocate = partial(torch.empty, count, dtype=torch.uint8, device=device)
        message = _rejection(allocate, f"{count} bytes were allocated", torch.OutOfMemoryError)
        expect("out of memory" in message.lower(), f"unclear message: {message}")
    expect(torch.ones(4, device=device).sum().item() == 4, "the device is not usable afterwards")
    return "recovered"


@case
def full_memory(device: str) -> str:
    """A device at its memory limit is usable again once memory is freed."""
    module = getattr(torch, device)
    _, total = module.mem_get_info()
    if not total:
        raise Absent("the plug-in does not report a memory size")
    limit = 64 << 20
    module.empty_cache()
    module.set_per_process_memory_fraction(min(1.0, (torch.accelerator.memory_reserved() + limit) / total))
    held: list[torch.Tensor] = []
    try:
        while len(held) < 64:
            held.append(torch.empty(8 << 20, dtype=torch.uint8, device=device))
    except torch.OutOfMemoryError:
        expect(held, "nothing could be allocated")
        count = len(held)
        held.clear()
        expect(torch.ones(1 << 20, device=device).sum().item() == 1 << 20, "memory was not freed")
        return f"full after {count} blocks of 8 MiB"
    finally:
        held.clear()
        module.set_per_process_memory_fraction(1.0)
        module.empty_cache()
    raise AssertionError("the limit was never reached")


@case
def properties(device: str) -> str:
    """Name, memory and compute units are plausible."""
    module = getattr(torch, device)
    info = module.get_device_properties(0)
    free, total = module.mem_get_info(0)
    expect(info.name, "no name")
    found = core.compiler(device, 0)
    fits = found is None or not info.max_threads_per_block or found[2] <= info.max_threads_per_block
    expect(fits, f"a group has {info.max_threads_per_block} work-items at most, less than the preferred size")
    expect(0 <= free <= total or not total, f"{free} bytes free of {total}")
    known = info.total_memory and total
    differ = known and abs(info.total_memory - total) > total / 10
    expect(not differ, f"total_memory is {info.total_memory}, and memory() says {total}")
    return f"{info.name}, {total / 2**30:.1f} GiB, {info.compute_units} compute units"


@case
def fill_memory(device: str) -> str:
    """Filling a part of a tensor with a byte changes nothing around it."""
    for size in (1, 63, 1 << 17):
        tensor = torch.zeros(size + 2, dtype=torch.uint8, device=device)
        core.fill_memory(device, 0, tensor.data_ptr() + 1, 0xA5, size)
        expected = torch.nn.functional.pad(torch.full((size,), 0xA5, dtype=torch.uint8), (1, 1))
        expect(torch.equal(tensor.cpu(), expected), f"{size} bytes are not filled correctly")
    return "filled"


@case
def links(device: str) -> str:
    """Each pair of devices says whether it has a direct link, and copies work either way."""
    count = torch.accelerator.device_count()
    if count < 2:
        raise Absent("one device only")
    direct = 0
    for index in range(1, count):
        direct += core.can_access(device, 0, index) + core.can_access(device, index, 0)
        there = torch.arange(5.0).to(f"{device}:0").to(f"{device}:{index}")
        expect(torch.equal(there.to(f"{device}:0").cpu(), torch.arange(5.0)), f"copies to device {index} and back")
    return f"{direct} of {2 * (count - 1)} links are direct"


@case
def mismatched_operands(device: str) -> str:
    """Shape and device mismatches raise errors, as on the CPU."""
    a, b = torch.ones(2, 3, device=device), torch.ones(4, 5, device=device)
    mistakes: list[Callable[[], Any]] = [lambda: a + b, lambda: a @ b, lambda: a.add_(b)]
    for wrong in mistakes:
        expect(_rejection(wrong, "mismatched shapes were accepted"), "no message")
    message = _rejection(lambda: a + torch.ones(2, 3), "operands on two devices were accepted")
    expect("device" in message.lower(), f"the message does not name devices: {message}")
    return "rejected"
