"""The base class of tools, and the entry points that deliver calls to the active ones.

``begin_torch``, ``begin_paddle``, ``end`` and ``fail`` are called by tool_intercept.cpp in csrc/torch and csrc/paddle,
on the thread of the call, with autograd and autocast disabled. Operators that a tool itself calls are not traced.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hardpoint._runtime import core
from hardpoint.debug._calls.base import Call
from hardpoint.debug._calls.location import modules, torch_location
from hardpoint.debug.fallback import matches

if TYPE_CHECKING:
    from hardpoint.debug._calls.paddle_tensor import NativeCall

#: What a tool keeps of a call from its begin to its end.
State = TypeVar("State")
AnyTool = TypeVar("AnyTool", bound="Tool[Any]")


class Tool(Generic[State]):
    """Observes calls in every thread, between :meth:`start` and :meth:`stop`."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns) or (".*",)
        self._selected: dict[str, bool] = {}
        self._raised: Exception | None = None

    def selects(self, name: str) -> bool:
        """Whether the tool observes this operator."""
        selected = self._selected.get(name)
        if selected is None:
            selected = self._selected[name] = any(matches(pattern, name) for pattern in self.patterns)
        return selected

    def begin(self, call: Call) -> State | None:
        """Called before the operator runs. The result is passed to :meth:`end` or :meth:`fail`."""
        return None

    def end(self, call: Call, state: State | None) -> None:
        """Called after the operator returned."""

    def fail(self, call: Call, state: State | None, message: str) -> None:
        """Called after the operator raised."""

    def start(self) -> None:
        """Activate the tool from the next operator on."""
        _set_active(self, True)

    def stop(self) -> None:
        """Deactivate the tool. Stopping twice is harmless."""
        _set_active(self, False)

    def failed(self) -> bool:
        """Whether the tool found a defect."""
        return False

    def summary(self) -> str:
        """The result, printed when the program ends; empty for none."""
        return ""

    def raise_in_program(self, error: Exception) -> None:
        """Raise from the call that is being observed."""
        self._raised = error
        raise error

    def __enter__(self: AnyTool) -> AnyTool:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop()
        if self._raised is not None and error is not None and error is not self._raised:
            raise self._raised from error  # Paddle turned it into an error of its own


_lock = threading.Lock()
_active: tuple[Tool[Any], ...] = ()


class _CallStack(threading.local):
    """The calls that this thread is in."""

    def __init__(self) -> None:
        self.calls: list[Call] = []


_stack = _CallStack()


def _set_active(tool: Tool[Any], on: bool) -> None:
    global _active
    with _lock:
        tools = tuple(t for t in _active if t is not tool) + ((tool,) if on else ())
        core.set_intercepted(sorted({pattern for t in tools for pattern in t.patterns}))
        _active = tools
        if tools:
            modules.start()
        else:
            modules.stop()


def inside_call(tool: Tool[Any]) -> bool:
    """Whether this thread is inside a call that the tool observes."""
    return any(one is tool for call in _stack.calls for one, _ in call.states)


def begin_torch(name: str, arguments: list[Any]) -> Call:
    """A torch operator starts."""
    from hardpoint.debug._calls.torch import TorchCall

    modules.start()  # torch may have been imported after the tool was started
    return _begin(TorchCall(name, arguments, torch_location()))


def begin_paddle(native: NativeCall) -> Call:
    """A Paddle kernel starts; ``native`` is valid until it ends."""
    from hardpoint.debug._calls.paddle import PaddleCall

    return _begin(PaddleCall(native))


def _begin(call: Call) -> Call:
    call.depth = len(_stack.calls)
    call.states = [(tool, tool.begin(call)) for tool in _active if tool.selects(call.name)]
    _stack.calls.append(call)
    return call


def end(call: Call, results: list[Any], tier: str) -> None:
    """The operator returned."""
    _leave(call)
    call.results = results
    call.tier = tier or call.tier
    for tool, state in _take_states(call):
        tool.end(call, state)


def fail(call: Call, message: str) -> None:
    """The operator raised."""
    _leave(call)
    for tool, state in _take_states(call):
        tool.fail(call, state, message)


def _take_states(call: Call) -> list[tuple[Tool[Any], Any]]:
    # A state may refer to its call: the cycle would keep tensors, and the graph of autograd, until they are collected.
    states, call.states = call.states, []
    return states


def _leave(call: Call) -> None:
    while _stack.calls and _stack.calls.pop() is not call:
        pass
