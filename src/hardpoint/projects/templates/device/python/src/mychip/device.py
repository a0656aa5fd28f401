"""The device mychip. Its memory is the host's: put your driver's calls (by ctypes, say) in place of these."""

import ctypes
from typing import Any

import numpy
from hardpoint.plugin import ALIGNMENT, Plugin, kernel


def floats(argument: Any) -> numpy.ndarray:
    """A view of a float32 tensor's elements. Anything else is "not this call": the next tier takes it."""
    if isinstance(argument, (int, float)) or argument.dtype != "float32":
        raise NotImplementedError("mychip takes float32 tensors")
    address = ctypes.cast(argument.data_ptr(), ctypes.POINTER(ctypes.c_float))
    return numpy.ctypeslib.as_array(address, argument.shape)


class MyChip(Plugin):
    """Memory, copies and two kernels. An exception in a method becomes a status code with its message."""

    name = "mychip"

    def __init__(self) -> None:
        self.blocks: dict[int, numpy.ndarray] = {}

    def device_count(self) -> int:
        return 1

    def properties(self, device: int) -> dict[str, Any]:
        return {"name": "My first chip", "version_major": 1}

    def allocate(self, device: int, size: int) -> int:
        block = numpy.empty(size + ALIGNMENT, numpy.uint8)  # a MemoryError means "out of memory" to Hardpoint too
        address = block.ctypes.data + -block.ctypes.data % ALIGNMENT
        self.blocks[address] = block
        return address

    def free(self, device: int, address: int) -> None:
        del self.blocks[address]

    def copy_to_device(self, device: int, dst: int, src: int, size: int, stream: int) -> None:
        ctypes.memmove(dst, src, size)

    # One function serves all three directions here. A driver's copy is queued on the stream and may return at once.
    copy_to_host = copy_on_device = copy_to_device

    @kernel("add")
    def add(self, out: Any, a: Any, b: Any, alpha: float) -> None:
        """Write a + alpha * b to out. Tensors arrive contiguous and of one shape."""
        floats(out)[...] = floats(a) + alpha * floats(b)

    @kernel("matmul")
    def matmul(self, out: Any, a: Any, b: Any) -> None:
        """Write a @ b to out: matrices, or batches of them."""
        numpy.matmul(floats(a), floats(b), out=floats(out))
