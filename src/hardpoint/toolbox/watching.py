"""Calls that tools see: the adapter tells this module about each call of a watched operator, before and after.

``begin``, ``end`` and ``fail`` are called by watch.cpp of csrc/torch and csrc/paddle, on the thread of the call, where
autograd and autocast are off and operators are not watched.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar

from hardpoint._runtime import core
from hardpoint.toolbox import places
from hardpoint.toolbox.rules import matches

_numbers = itertools.count(1)
T = TypeVar("T", bound="Tool")


class Trial(Protocol):
    """A call that is compared with the CPU: its inputs are saved when it is made."""

    def finish(self, tolerances: Mapping[str, tuple[float, float]], wide: bool) -> dict[str, Any]:
        """Run the reference, and compare everything. Once, after the call."""

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with its inputs to a file, for ``hardpoint replay``."""


class Kept(Protocol):
    """Inputs of a call as they were before it."""

    #: Why they are not kept; empty if they are.
    reason: str
    #: Whether everything is as it was; if not, what the call wrote was too large to be kept.
    complete: bool

    def bytes(self) -> int:
        """What a file of them takes."""

    def named(self) -> dict[str, Any]:
        """By name; what is only written is no input."""

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with them to a file, for ``hardpoint replay``."""


class Storage(NamedTuple):
    """Memory that a call made or wrote, without a reference that would keep it."""

    key: Hashable  # the same for the same memory
    address: int
    gone: Callable[[], bool]
    bytes: int
    dtype: str
    sizes: tuple[int, ...]


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

    def head(self) -> dict[str, Any]:
        """What a report of it begins with."""
        return {"call": self.number, "operator": self.name, "tier": self.tier, "place": str(self.place)}

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

    @abstractmethod
    def keep(self, max_bytes: int, copy: bool) -> Kept:
        """Keep the inputs: copied at once, or as they are but for what the call writes."""

    @abstractmethod
    def outputs(self) -> dict[str, Any]:
        """Results, and arguments that are written and not among them, by name."""

    @abstractmethod
    def worst(self, values: list[Any]) -> int:
        """How bad the worst element of tensors and numbers is; see :mod:`ranges`."""

    @abstractmethod
    def ranges(self, named: dict[str, Any]) -> dict[str, Any]:
        """The range of each tensor, for JSON."""

    @abstractmethod
    def storages(self) -> Iterator[Storage]:
        """Memory on the device of what came out of it."""


class Tool:
    """Something that looks at calls. :meth:`start` and :meth:`stop` switch it, for every thread."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        self.patterns = tuple(patterns) or (".*",)
        self._wanted: dict[str, bool] = {}
        self._raised: Exception | None = None

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

    def failed(self) -> bool:
        """Whether it found what ought not to be."""
        return False

    def summary(self) -> str:
        """How it went, for the end of the program; empty if there is nothing to say."""
        return ""

    def end_program(self, error: Exception) -> None:
        """Raise in the program's call."""
        self._raised = error
        raise error

    def __enter__(self: T) -> T:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._raised is not None and error is not None and error is not self._raised:
            raise self._raised from error  # on its way through Paddle it became an error of Paddle's


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


def inside(tool: Tool) -> bool:
    """Whether this thread is in a call that the tool looks at: what starts now is part of it."""
    return any(one is tool for call in _thread.calls for one, _ in call.states)


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
