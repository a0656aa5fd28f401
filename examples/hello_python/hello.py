"""The plug-in of examples/hello_c in pure Python: a device ``hello`` in host memory with one kernel."""

import ctypes
from typing import Any

import numpy

from hardpoint.plugin import ALIGNMENT, Plugin, kernel


def elements(argument: Any) -> numpy.ndarray:
    """View a float32 tensor as an array; other dtypes and scalars are declined and run on the CPU."""
    if isinstance(argument, (int, float)) or argument.dtype != "float32":
        raise NotImplementedError("hello adds float32 tensors")
    address = ctypes.cast(argument.data_ptr(), ctypes.POINTER(ctypes.c_float))
    return numpy.ctypeslib.as_array(address, argument.shape)


class Hello(Plugin):
    name = "hello"

    def __init__(self) -> None:
        self.blocks: dict[int, numpy.ndarray] = {}

    def device_count(self) -> int:
        return 1

    def allocate(self, device: int, size: int) -> int:
        block = numpy.empty(size + ALIGNMENT, numpy.uint8)  # Hardpoint reports a MemoryError as out of memory
        address = block.ctypes.data + -block.ctypes.data % ALIGNMENT
        self.blocks[address] = block
        return address

    def free(self, device: int, address: int) -> None:
        del self.blocks[address]

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        ctypes.memmove(dst, src, size)

    # Both sides are host memory, so one synchronous function serves all three directions.
    copy_to_host = copy_on_device = copy_to_device

    @kernel("add")
    def add(self, out: Any, a: Any, b: Any, alpha: float) -> None:
        """Write a + alpha * b to out. Tensors are contiguous and have one shape."""
        elements(out)[...] = elements(a) + alpha * elements(b)
