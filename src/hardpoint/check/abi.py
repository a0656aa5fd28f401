"""The mode ``abi``: the contract's slots, and what happens at its edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

import hardpoint
from hardpoint import ops, plugins
from hardpoint._runtime import ABI, core
from hardpoint.check import slots
from hardpoint.check.cases import Absent, Cases, expect

case = Cases("abi")
names, run = case.names, case.run


@cache
def _plugin() -> Any:
    return plugins.choose()


@cache
def _filled() -> frozenset[str]:
    python = getattr(_plugin(), "python", None)
    return frozenset(
        slots.filled_by_python(python) if python is not None else slots.filled_by_library(_plugin().origin)
    )


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
for _extension, _slots in slots.EXTENSIONS.items():
    for _slot in _slots:
        _slot_check(f"{_extension}.{_slot}", False)


@case
def version(device: str) -> str:
    """The plug-in's ABI minor is told."""
    return f"plug-in {ABI[0]}.{_plugin().abi_minor}, Hardpoint {ABI[0]}.{ABI[1]}"


@case
def extensions_are_complete(device: str) -> str:
    """An extension that is present has every slot that is not optional."""
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
    """The compiler takes a portable kernel, and refuses nonsense with its own words."""
    found = core.compiler(device, 0)
    if found is None:
        raise Absent(f"absent: {slots.INSTEAD['compiler']}")
    try:
        core.compile(device, 0, "this is no program", "")
    except RuntimeError as error:
        expect(str(error).strip(), "the error says nothing")
    else:
        raise AssertionError("nonsense compiled")
    return f"dialect {found[0]}, {found[1]}"


@case
def device_count(device: str) -> str:
    """The number of devices is the same wherever it is asked."""
    count = torch.accelerator.device_count()
    expect(count == _plugin().device_count == len(hardpoint.devices(device)), "device counts differ")
    expect(count > 0, "there is no device")
    return str(count)


@case
def bad_device_index(device: str) -> str:
    """An index that does not exist is refused, and the next call works."""
    for index in (torch.accelerator.device_count(), 127):
        try:
            torch.ones(1, device=f"{device}:{index}")
        except RuntimeError as error:
            expect(str(index) in str(error), f"the message does not name the device: {error}")
        else:
            raise AssertionError(f"{device}:{index} was accepted")
    expect(torch.ones(1, device=device).item() == 1, "the device did not go on")
    return "refused"


@case
def zero_bytes(device: str) -> str:
    """Tensors without elements can be made, copied and used, and cost no memory."""
    before = torch.accelerator.memory_allocated()
    empty = torch.empty(0, 5, device=device)
    expect(torch.accelerator.memory_allocated() == before, "an empty tensor takes memory")
    expect(empty.cpu().shape == (0, 5) and (empty + 1).shape == (0, 5), "wrong shape")
    expect(torch.empty(0).to(device).clone().numel() == 0, "not empty")
    return "no memory"


@case
def out_of_memory(device: str) -> str:
    """Too large a request raises torch's own error, and the device goes on."""
    for count in (1 << 50, 1 << 60):
        try:
            torch.empty(count, dtype=torch.uint8, device=device)
        except torch.OutOfMemoryError as error:
            expect("out of memory" in str(error).lower(), f"unclear message: {error}")
        else:
            raise AssertionError(f"{count} bytes were given")
    expect(torch.ones(4, device=device).sum().item() == 4, "the device did not go on")
    return "recovered"


@case
def full_memory(device: str) -> str:
    """A device that is filled up by a limit can be used again when memory is freed."""
    module = getattr(torch, device)
    _, total = module.mem_get_info()
    if not total:
        raise Absent("the plug-in tells no memory size")
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
        expect(torch.ones(1 << 20, device=device).sum().item() == 1 << 20, "memory did not come back")
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
    told = module.get_device_properties(0)
    free, total = module.mem_get_info(0)
    expect(told.name, "no name")
    expect(0 <= free <= total or not total, f"{free} bytes free of {total}")
    return f"{told.name}, {total / 2**30:.1f} GiB, {told.compute_units} compute units"


@case
def dtype_mistake(device: str) -> str:
    """A mistake of the caller is an error with a message, as on the CPU."""
    a, b = torch.ones(2, 3, device=device), torch.ones(4, 5, device=device)
    mistakes: list[Callable[[], Any]] = [lambda: a + b, lambda: a @ b, lambda: a.add_(b)]
    for wrong in mistakes:
        try:
            wrong()
        except RuntimeError as error:
            expect(str(error), "no message")
        else:
            raise AssertionError("shapes that do not fit were accepted")
    try:
        a + torch.ones(2, 3)
    except RuntimeError as error:
        expect("device" in str(error).lower(), f"the message does not speak of devices: {error}")
    else:
        raise AssertionError("operands on two devices were accepted")
    return "refused"
