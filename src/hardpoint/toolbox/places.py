"""Where a call comes from: the line of the Python program, the module, and the forward call behind a backward one."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
import threading
from collections import OrderedDict
from dataclasses import dataclass
from types import FrameType
from typing import Any

#: Forward calls that are remembered for their gradients.
REMEMBERED = 50_000

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = sysconfig.get_paths()["stdlib"] + os.sep


@dataclass(frozen=True)
class Place:
    """Where a call comes from. Of a backward call: where its forward call came from."""

    line: str = ""
    module: str = ""
    backward: str = ""  # the autograd node that made the call

    def __str__(self) -> str:
        parts = [self.line, self.module and f"module {self.module}", self.backward and f"in {self.backward}"]
        return ", ".join(part for part in parts if part)


#: Packages whose lines are not the program's.
_PACKAGES = ("torch", "paddle", "tvm_ffi")


@functools.cache
def _folder(package: str) -> str:
    file = getattr(sys.modules[package], "__file__", None)
    return os.path.dirname(file) + os.sep if file else "<"


def _is_program(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not (
        file.startswith((_OURS, "<frozen"))
        or any(file.startswith(_folder(package)) for package in _PACKAGES if package in sys.modules)
        or (file.startswith(_STANDARD) and "site-packages" not in file)
    )


def line() -> str:
    """The innermost line of the program itself: ``train.py:12``; empty on a thread that has none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_program(frame):
            return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def note() -> str:
    """The same for the end of an error message."""
    found = line()
    return f" (at {found})" if found else ""


class Modules:
    """Which ``torch.nn.Module`` each thread is in, while tools are on."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._hooks: list[Any] = []

    def start(self) -> None:
        """Follow modules from now on; once torch is there."""
        if not self._hooks and (module := sys.modules.get("torch.nn.modules.module")) is not None:
            self._hooks = [
                module.register_module_forward_pre_hook(self._enter),
                module.register_module_forward_hook(self._leave, always_call=True),
            ]

    def stop(self) -> None:
        """Stop it."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._local = threading.local()  # modules that are left later are not told of

    def _enter(self, module: Any, arguments: Any) -> None:
        stack = self._stack()
        if not stack:
            self._local.names = {id(m): name for name, m in module.named_modules()}
            self._local.root = type(module).__name__
        stack.append(module)

    def _leave(self, module: Any, arguments: Any, result: Any) -> None:
        stack = self._stack()
        if stack and stack[-1] is module:  # tools may have been switched on inside of one
            stack.pop()

    def _stack(self) -> list[Any]:
        if not hasattr(self._local, "stack"):
            self._local.stack = []
        stack: list[Any] = self._local.stack
        return stack

    def current(self) -> str:
        """``Net.encoder.0``, or nothing."""
        stack = self._stack()
        if not stack:
            return ""
        name = self._local.names.get(id(stack[-1]), type(stack[-1]).__name__)
        return f"{self._local.root}.{name}" if name else str(self._local.root)


modules = Modules()


class _Forward:
    """Where forward calls came from, by the number that autograd gives to them and to their gradients."""

    def __init__(self) -> None:
        self._places: OrderedDict[int, Place] = OrderedDict()
        self._lock = threading.Lock()

    def remember(self, number: int, place: Place) -> None:
        with self._lock:
            self._places[number] = place
            self._places.move_to_end(number)
            if len(self._places) > REMEMBERED:
                self._places.popitem(last=False)

    def find(self, number: int) -> Place:
        with self._lock:
            return self._places.get(number, Place())


_forward = _Forward()


def current() -> Place:
    """Where the operator that this thread is in comes from."""
    import torch

    node = torch._C._current_autograd_node()
    if node is not None:
        forward = _forward.find(node._sequence_nr())
        return Place(forward.line or line(), forward.module, node.name())
    place = Place(line(), modules.current())
    # Autograd makes the node of a call before it calls the kernel: the last number given is this call's.
    _forward.remember(torch._C._autograd._get_sequence_nr() - 1, place)
    return place
