"""Calls that tools see: the adapter tells this module about each call of a watched operator, before and after.

``begin``, ``end`` and ``fail`` are called by watch.cpp of csrc/torch and csrc/paddle, on the thread of the call, where
autograd and autocast are off and operators are not watched.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hardpoint._runtime import core
from hardpoint.toolbox import places
from hardpoint.toolbox.rules import matches

_numbers = itertools.count(1)


class Trial(Protocol):
    """A call that is compared with the CPU: its inputs are saved when it is made."""

    def finish(self, tolerances: Mapping[str, tuple[float, float]], wide: bool) -> dict[str, Any]:
        """Run the reference, and compare everything. Once, after the call."""

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with its inputs to a file, for ``hardpoint replay``."""


class Call(ABC):
    """One call of an operator, of either framework."""

    def __init__(self, name: str, arguments: list[Any], place: places.Place) -> None:
        self.number = next(_numbers)
        self.name = name
        self.arguments = arguments  # in the order of the schema, defaults included
        self.results: list[Any] = []
        self.depth = len(_thread.calls)  # calls that it is part of
        self.tier = "adapter"  # what served it; memory and copies are the adapter's own
        self.place = place
        self.states: list[tuple[Tool, Any]] = []

    @abstractmethod
    def describe(self, values: bool) -> dict[str, Any]:
        """Arguments by their names, for JSON; tensors with their elements where ``values``."""

    @abstractmethod
    def describe_results(self, values: bool) -> dict[str, Any]:
        """The same for results."""

    @abstractmethod
    def kernel(self) -> str:
        """The standard operator whose kernel serves it; empty if none does."""

    @abstractmethod
    def trial(self, max_bytes: int) -> Trial:
        """Save the inputs for a comparison, unless they take more than ``max_bytes``."""


class Tool:
    """Something that looks at calls. :meth:`start` and :meth:`stop` switch it, for every thread."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns) or (".*",)
        self._wanted: dict[str, bool] = {}

    def wants(self, name: str) -> bool:
        """Whether it looks at this operator."""
        wanted = self._wanted.get(name)
        if wanted is None:
            wanted = self._wanted[name] = any(matches(pattern, name) for pattern in self.patterns)
        return wanted

    def begin(self, call: Call) -> Any:
        """Before a call. What it returns is given to :meth:`end`."""

    def end(self, call: Call, state: Any) -> None:
        """After a call."""

    def fail(self, call: Call, state: Any, message: str) -> None:
        """After a call that raised."""

    def start(self) -> None:
        """From the next operator on."""
        _switch(self, True)

    def stop(self) -> None:
        """Until the next operator. Doing it twice is harmless."""
        _switch(self, False)


_lock = threading.Lock()
_tools: tuple[Tool, ...] = ()


class _Thread(threading.local):
    """What this thread is in."""

    def __init__(self) -> None:
        self.calls: list[Call] = []


_thread = _Thread()


def _switch(tool: Tool, on: bool) -> None:
    global _tools
    with _lock:
        tools = tuple(t for t in _tools if t is not tool) + ((tool,) if on else ())
        core.set_watched(sorted({pattern for t in tools for pattern in t.patterns}))
        _tools = tools
        if tools:
            places.modules.start()
        else:
            places.modules.stop()


def begin(name: str, arguments: list[Any]) -> Call:
    """A call of torch's starts."""
    from hardpoint.toolbox.torch_calls import TorchCall

    places.modules.start()  # where tools were on before torch was there
    return _enter(TorchCall(name, arguments, places.current()))


def begin_phi(shown: Any) -> Call:
    """A call of Paddle's starts; ``shown`` is valid until it ends."""
    from hardpoint.toolbox.phi_calls import PhiCall

    return _enter(PhiCall(shown))


def _enter(call: Call) -> Call:
    call.states = [(tool, tool.begin(call)) for tool in _tools if tool.wants(call.name)]
    _thread.calls.append(call)
    return call


def end(call: Call, results: list[Any], tier: str) -> None:
    """It has returned."""
    _leave(call)
    call.results = results
    call.tier = tier or call.tier
    for tool, state in call.states:
        tool.end(call, state)


def fail(call: Call, message: str) -> None:
    """It has raised."""
    _leave(call)
    for tool, state in call.states:
        tool.fail(call, state, message)


def _leave(call: Call) -> None:
    while _thread.calls and _thread.calls.pop() is not call:
        pass
