"""The device mychip. It uses host memory: replace these calls by those of your driver, for example with ctypes."""

import ctypes
from typing import Any

import numpy
from hardpoint.plugin import ALIGNMENT, DeviceProperties, Plugin, kernel


def floats(argument: Any) -> numpy.ndarray:
    """View a float32 tensor as an array. Anything else is declined, and the next tier takes the call."""
    if isinstance(argument, (int, float)) or argument.dtype != "float32":
        raise NotImplementedError("mychip supports float32 tensors")
    address = ctypes.cast(argument.data_ptr(), ctypes.POINTER(ctypes.c_float))
    return numpy.ctypeslib.as_array(address, argument.shape)


class MyChip(Plugin):
    """Memory, copies and two kernels. An exception in a method becomes a status code with a message."""

    name = "mychip"

    def __init__(self) -> None:
        self.blocks: dict[int, numpy.ndarray] = {}

    def device_count(self) -> int:
        return 1

    def properties(self, device: int) -> DeviceProperties:
        return {"name": "My first chip", "version_major": 1}

    def allocate(self, device: int, size: int) -> int:
        block = numpy.empty(size + ALIGNMENT, numpy.uint8)  # Hardpoint reports a MemoryError as out of memory
        address = block.ctypes.data + -block.ctypes.data % ALIGNMENT
        self.blocks[address] = block
        return address

    def free(self, device: int, address: int) -> None:
        del self.blocks[address]

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        ctypes.memmove(dst, src, size)

    # One function for all three directions. A driver would queue the copy on the stream and return immediately.
    copy_to_host = copy_on_device = copy_to_device

    @kernel("add")
    def add(self, out: Any, a: Any, b: Any, alpha: float) -> None:
        """Write a + alpha * b to out; b may be a number. Tensors are contiguous and have one shape."""
        floats(out)[...] = floats(a) + alpha * (b if isinstance(b, (int, float)) else floats(b))

    @kernel("matmul")
    def matmul(self, out: Any, a: Any, b: Any) -> None:
        """Write a @ b to out, for matrices or batches of matrices."""
        numpy.matmul(floats(a), floats(b), out=floats(out))
