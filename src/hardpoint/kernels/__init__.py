"""Kernels written in Python: methods of a plug-in, or replacements for a mounted device's kernels."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import FrameType, MethodType, TracebackType
from typing import Concatenate, Generic, ParamSpec, TypeVar, overload

from hardpoint._runtime import core, only_mounted

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
T = TypeVar("T")


class Kernel(Generic[P, R]):
    """A Python function that serves a standard operator. Made by :func:`kernel`.

    Outside a class it replaces the device's kernel until :meth:`remove`, or until the end of a ``with`` block.
    In the body of a class it is a method, which serves the plug-in's device.

    Attributes:
        name: The standard operator.
        function: The Python function.
        strided: Whether the function accepts any strides.
        channels_last: Whether it accepts channels last besides contiguous tensors.
        device: Name of the device it serves, or None while it is not registered.
    """

    def __init__(
        self, name: str, function: Callable[P, R], *, strided: bool = False, channels_last: bool = False
    ) -> None:
        self.name = name
        self.function = function
        self.strided = strided
        self.channels_last = channels_last
        self.device: str | None = None
        functools.update_wrapper(self, function)

    def bound(self, function: Callable[Q, T]) -> Kernel[Q, T]:
        """The same kernel with another function: the method of a plug-in's instance."""
        return Kernel(self.name, function, strided=self.strided, channels_last=self.channels_last)

    def register(self, device: str) -> Kernel[P, R]:
        """Serve the operator on a mounted device, in front of the device's present kernel."""
        import tvm_ffi  # imports torch, if that is installed

        # The core never frees a kernel, since another thread may be inside it. The list lets remove() release the
        # function nevertheless.
        target: list[Callable[..., R]] = [self.function]

        def call(*args: object) -> R | None:
            try:
                if target:
                    return target[0](*args)
            except NotImplementedError:
                pass
            # Cheaper than an exception, for which TVM-FFI would build an error object with a traceback.
            core.mark_declined()
            return None

        handle = tvm_ffi.convert(call)
        flags = core.KERNEL_PYTHON
        flags |= core.KERNEL_STRIDED * self.strided | core.KERNEL_CHANNELS_LAST * self.channels_last
        self._token = core.override_kernel(device, self.name, handle.__chandle__(), flags)
        self._target, self._handle = target, handle
        self.device = device
        return self

    def remove(self) -> None:
        """Stop serving the operator; the kernel that was replaced serves it again. Further calls do nothing."""
        if self.device is not None:
            core.remove_override(self.device, self._token)
            self.device = None
            self._target.clear()

    def __enter__(self) -> Kernel[P, R]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the Python function."""
        return self.function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Kernel[P, R]: ...
    @overload
    def __get__(self: Kernel[Concatenate[T, Q], R], instance: T, owner: type) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: type) -> Kernel[P, R] | Callable[..., R]:
        return self if instance is None else MethodType(self.function, instance)


def kernel(
    name: str, *, device: str | None = None, strided: bool = False, channels_last: bool = False
) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Serve a standard operator with a Python function.

    The function takes the outputs first, then the inputs, then the attributes. Tensors are TVM-FFI tensors, which
    ``torch.from_dlpack`` and similar functions accept; their memory is valid during the call. To decline a call, raise
    ``NotImplementedError`` before writing any output: the next tier takes it.

    In the body of a :class:`hardpoint.plugin.Plugin` class it declares a kernel of the plug-in::

        class MyChip(Plugin):
            @kernel("relu")
            def relu(self, out, x): ...

    Elsewhere it replaces the kernel of a mounted device at once::

        @kernel("relu")
        def relu(out, x): ...

        relu.remove()

    Args:
        name: The standard operator, such as ``add``.
        device: The mounted device to serve. May be omitted if only one is mounted.
        strided: Pass tensors with any strides. By default tensors arrive contiguous.
        channels_last: Pass all images and volumes in channels-last layout if the largest one has it. Declined calls are
            repeated with contiguous tensors.
    """

    def decorate(function: Callable[P, R]) -> Kernel[P, R]:
        plain = function.function if isinstance(function, Kernel) else function
        made = Kernel(name, plain, strided=strided, channels_last=channels_last)
        if not _is_class_body(sys._getframe(1)):
            return made.register(device or only_mounted("kernel(name, device=...)"))
        if device is not None:
            raise TypeError(f"kernel({name!r}, device={device!r}): a method serves its plug-in's device; omit device=")
        if isinstance(function, Kernel):
            raise TypeError(f"kernel({name!r}): the method is kernel {function.name!r} already; write one for each")
        return made

    return decorate


def _is_class_body(frame: FrameType) -> bool:
    # Reading f_locals of a function's frame would keep its variables alive.
    is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
    return not is_function and "__qualname__" in frame.f_locals
