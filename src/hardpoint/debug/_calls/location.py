"""Source locations of calls: the Python line, the module and, for a backward call, those of its forward call."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from hardpoint.debug._tool.paths import shown

#: Forward calls whose locations are kept for the backward pass.
MAX_FORWARD_CALLS = 50_000

_HARDPOINT = str(Path(__file__).resolve().parents[2]) + os.sep
_STANDARD_LIBRARY = sysconfig.get_paths()["stdlib"] + os.sep
#: Packages whose frames are skipped.
_PACKAGES = ("torch", "paddle", "tvm_ffi")


@dataclass(frozen=True)
class Location:
    """Where a call was made. A backward call has the line and module of its forward call."""

    line: str = ""
    module: str = ""
    backward: str = ""  # the autograd node

    def __str__(self) -> str:
        fields = [self.line, self.module and f"module {self.module}", self.backward and f"in {self.backward}"]
        return ", ".join(field for field in fields if field)


@functools.cache
def _package_folder(package: str) -> str:
    file = getattr(sys.modules[package], "__file__", None)
    return os.path.dirname(file) + os.sep if file else "<"


def _is_user_code(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not (
        file.startswith((_HARDPOINT, "<frozen"))
        or any(file.startswith(_package_folder(package)) for package in _PACKAGES if package in sys.modules)
        or (file.startswith(_STANDARD_LIBRARY) and "site-packages" not in file)
    )


def library_folders() -> list[str]:
    """Folders whose files are not user code, imported or not."""
    folders = [_HARDPOINT, _HARDPOINT.rstrip(os.sep) + "_autoload.py", _STANDARD_LIBRARY]
    for package in _PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin:
            folders.append(os.path.dirname(spec.origin) + os.sep)
    return folders


def current_line() -> str:
    """The innermost line of user code, such as ``train.py:12``; empty on a thread without any."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _is_user_code(frame):
            return f"{shown(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def error_suffix() -> str:
    """``" (at train.py:12)"`` for an error message, or nothing. Called by csrc/python/python_location.h."""
    line = current_line()
    return f" (at {line})" if line else ""


def outside_graphs(hook: Callable[..., None]) -> Callable[..., None]:
    """A global hook of torch that `torch.compile` leaves out of the functions that it compiles."""
    from torch.compiler import is_compiling  # a constant to Dynamo, which then does not trace the call of the hook

    def call(*arguments: Any) -> None:
        if not is_compiling():
            hook(*arguments)

    return call


class _ModuleState(threading.local):
    """The modules that a thread is in, outermost first, and the names of the outermost module's submodules by id."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.names: dict[int, str] = {}


class ModuleStack:
    """Tracks the ``torch.nn.Module`` that each thread is in, while any tool is on."""

    def __init__(self) -> None:
        self._local = _ModuleState()
        self._hooks: list[Any] = []

    def start(self) -> None:
        """Install the hooks, if torch is imported and they are not installed yet."""
        if not self._hooks and (module := sys.modules.get("torch.nn.modules.module")) is not None:
            self._hooks = [
                module.register_module_forward_pre_hook(outside_graphs(self._enter)),
                module.register_module_forward_hook(outside_graphs(self._leave), always_call=True),
            ]

    def stop(self) -> None:
        """Remove the hooks."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._local = _ModuleState()  # no hook reports the exit of the current modules

    def _enter(self, module: Any, arguments: Any) -> None:
        if not self._local.stack:
            self._local.names = {id(m): name for name, m in module.named_modules()}
        self._local.stack.append(module)

    def _leave(self, module: Any, arguments: Any, result: Any) -> None:
        stack = self._local.stack
        if stack and stack[-1] is module:  # the hooks may have been installed inside a module
            stack.pop()

    def current(self) -> str:
        """The path of the innermost module, such as ``Net.encoder.0``; empty outside modules."""
        if not self._local.stack:
            return ""
        outer, inner = self._local.stack[0], self._local.stack[-1]
        name = self._local.names.get(id(inner), type(inner).__name__)
        return f"{type(outer).__name__}.{name}" if name else type(outer).__name__


modules = ModuleStack()


class _ForwardLocations:
    """Locations of forward calls, keyed by the sequence number that autograd shares with the backward node."""

    def __init__(self) -> None:
        self._locations: OrderedDict[int, Location] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, number: int, location: Location) -> None:
        with self._lock:
            self._locations[number] = location
            self._locations.move_to_end(number)
            if len(self._locations) > MAX_FORWARD_CALLS:
                self._locations.popitem(last=False)

    def find(self, number: int) -> Location:
        with self._lock:
            return self._locations.get(number, Location())


_forward = _ForwardLocations()


def torch_location() -> Location:
    """The location of the torch operator that this thread is running."""
    import torch

    node = torch._C._current_autograd_node()
    if node is not None:
        forward = _forward.find(node._sequence_nr())
        return Location(forward.line or current_line(), forward.module, node.name())
    location = Location(current_line(), modules.current())
    # Autograd creates the node before it calls the kernel, so the latest sequence number belongs to this call.
    _forward.add(torch._C._autograd._get_sequence_nr() - 1, location)
    return location


def paddle_location() -> Location:
    """The location of the Paddle kernel that this thread is running."""
    return Location(current_line(), _paddle_layer())


def _paddle_layer() -> str:
    """The path of the innermost ``paddle.nn.Layer``. Read from the stack: Paddle has no global layer hook."""
    layer_type = sys.modules["paddle"].nn.Layer
    layers: list[Any] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "forward" and isinstance(owner := frame.f_locals.get("self"), layer_type):
            layers.append(owner)
        frame = frame.f_back
    if not layers:
        return ""
    inner, root = layers[0], layers[-1]
    name = next((name for name, each in root.named_sublayers() if each is inner), "")
    return f"{type(root).__name__}.{name}" if name else type(root).__name__
