"""Calls that tools see: the adapter tells this module about each call of a watched operator, before and after.

``begin``, ``end`` and ``fail`` are called by csrc/torch/watch.cpp, on the thread of the call, where autograd and
autocast are off and operators are not watched.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

from hardpoint._runtime import core
from hardpoint.toolbox import places
from hardpoint.toolbox.rules import matches

_numbers = itertools.count(1)
T = TypeVar("T", bound="Tool")


class Call:
    """One call of an operator."""

    def __init__(self, name: str, arguments: list[Any], depth: int) -> None:
        self.number = next(_numbers)
        self.name = name
        self.arguments = arguments  # in the order of the schema, defaults included
        self.results: list[Any] = []
        self.depth = depth  # calls that it is part of
        self.tier = "adapter"  # what served it; memory and copies are the adapter's own
        self.place = places.current()
        self.states: list[tuple[Tool, Any]] = []


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

    def seen(self, name: str, tier: str) -> None:
        """After a call of a framework that tells no arguments: Paddle."""

    def start(self) -> None:
        """From the next operator on."""
        _switch(self, True)

    def stop(self) -> None:
        """Until the next operator. Doing it twice is harmless."""
        _switch(self, False)

    def failed(self) -> bool:
        """Whether it found what ought not to be."""
        return False

    def summary(self) -> str:
        """How it went, for the end of the program; empty if there is nothing to say."""
        return ""

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_lock = threading.Lock()
_tools: tuple[Tool, ...] = ()
_observer: int | None = None


class _Thread(threading.local):
    """What this thread is in."""

    def __init__(self) -> None:
        self.calls: list[Call] = []


_thread = _Thread()


def _switch(tool: Tool, on: bool) -> None:
    global _tools, _observer
    with _lock:
        tools = tuple(t for t in _tools if t is not tool) + ((tool,) if on else ())
        core.set_watched(sorted({pattern for t in tools for pattern in t.patterns}))
        _tools = tools
        if tools:
            places.modules.start()
        else:
            places.modules.stop()
        if tools and _observer is None and "paddle" in sys.modules:
            _observer = core.add_observer(_served)
        elif not tools and _observer is not None:
            core.remove_observer(_observer)
            _observer = None


def _served(name: str, tier: str, begin: bool) -> None:
    if not begin and name.startswith("phi::"):
        for tool in _tools:
            if tool.wants(name):
                tool.seen(name, tier)


def inside(tool: Tool) -> bool:
    """Whether this thread is in a call that the tool looks at: what starts now is part of it."""
    return any(one is tool for call in _thread.calls for one, _ in call.states)


def begin(name: str, arguments: list[Any]) -> Call:
    """A call starts."""
    places.modules.start()  # where tools were on before torch was there
    call = Call(name, arguments, len(_thread.calls))
    call.states = [(tool, tool.begin(call)) for tool in _tools if tool.wants(name)]
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
