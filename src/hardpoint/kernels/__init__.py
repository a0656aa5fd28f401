"""Kernels written in Python: put one in place of a device's own, at run time."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from hardpoint._runtime import core, mounted

KernelFunction = Callable[..., Any]


class Override:
    """A Python kernel in place of a device's. Use as a context manager, or call :meth:`remove`."""

    def __init__(self, device: str, name: str, function: KernelFunction, strided: bool) -> None:
        self.device = device
        self.name = name
        self.function = function
        import tvm_ffi  # here, because it imports torch where that is installed

        # The core keeps what it is given for ever, since a call may be in it; so it is given a way to the function.
        self._target = target = [function]

        def call(*args: Any) -> Any:
            try:
                if target:
                    return target[0](*args)
            except NotImplementedError:
                pass
            # Not as an exception: TVM-FFI would make an error object with a traceback of it, for nobody to read.
            core.note_declined()

        self._handle = tvm_ffi.convert(call)
        flags = core.KERNEL_PYTHON | (core.KERNEL_STRIDED if strided else 0)
        self._token: int | None = core.override_kernel(device, name, self._handle.__chandle__(), flags)

    def remove(self) -> None:
        """Take the kernel away again; the one below it serves the operator. Doing it twice is harmless."""
        if self._token is not None:
            core.remove_override(self.device, self._token)
            self._token = None
            self._target.clear()

    def __enter__(self) -> Override:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __call__(self, *args: Any) -> Any:
        """Call the Python function itself."""
        return self.function(*args)


def kernel(name: str, *, device: str | None = None, strided: bool = False) -> Callable[[KernelFunction], Override]:
    """Serve the standard operator ``name`` with a Python function: outputs first, then inputs, then attributes.

    The function gets TVM-FFI tensors, of which ``torch.from_dlpack`` and others make theirs; their memory is valid
    during the call. It may raise ``NotImplementedError`` for a call that it does not take, before it
    wrote anything: the next tier takes it. Without ``strided=True`` tensors arrive contiguous.
    """

    def register(function: KernelFunction) -> Override:
        if isinstance(function, Override):
            function = function.function
        target = device
        if target is None:
            names = mounted()
            if len(names) != 1:
                raise ValueError(f"which device? mounted: {', '.join(names) or 'none'}; say kernel(name, device=...)")
            target = names[0]
        return Override(target, name, function, strided)

    return register
