"""A captured operator call, independent of the framework."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hardpoint.debug._calls.location import Location

if TYPE_CHECKING:
    from hardpoint.debug._tool.base import Tool

#: A JSON object that describes a call or a finding.
Report = dict[str, Any]

_numbers = itertools.count(1)


class Comparison(Protocol):
    """Compares one call with the CPU. Creating it, before the call, copies the inputs."""

    def finish(self, tolerances: Mapping[str, tuple[float, float]], wide: bool) -> Report:
        """Run the CPU reference and compare. Call it once, after the call."""

    def save(self, path: Path, report: Report) -> Path:
        """Write the call and its inputs to a file for ``hardpoint replay``."""


class SavedInputs(Protocol):
    """The inputs of a call as they were before it."""

    #: Why they were not saved; empty if they were.
    reason: str
    #: False if the arguments that the call overwrites were too large to copy.
    complete: bool

    def bytes(self) -> int:
        """Size of the inputs in a file."""

    def named(self) -> dict[str, Any]:
        """The inputs by name, without arguments that are only written."""

    def save(self, path: Path, report: Report) -> Path:
        """Write the call and its inputs to a file for ``hardpoint replay``."""


class Storage(NamedTuple):
    """Device memory that a call allocated or wrote. Holds no reference to it."""

    key: Hashable  # identifies the memory
    address: int
    expired: Callable[[], bool]
    bytes: int
    dtype: str
    sizes: tuple[int, ...]


class Call(ABC):
    """One call of an operator."""

    def __init__(self, name: str, arguments: list[Any], location: Location) -> None:
        self.number = next(_numbers)
        self.name = name
        self.arguments = arguments  # in schema order, with defaults filled in
        self.results: list[Any] = []
        self.depth = 0  # number of enclosing calls
        self.tier = "adapter"  # the tier that served it; the adapter serves memory and copies
        self.location = location
        self.states: list[tuple[Tool[Any], Any]] = []
        #: Whether a device graph captures the call, which then runs at replays only: tools must not read values.
        self.captured = self.is_captured()

    def is_captured(self) -> bool:
        """Whether the current stream captures a device graph."""
        return False

    def header(self) -> Report:
        """The first fields of every report about this call."""
        return {"call": self.number, "operator": self.name, "tier": self.tier, "location": str(self.location)}

    @abstractmethod
    def describe_arguments(self, values: bool) -> Report:
        """Arguments by name, with tensor elements if ``values``."""

    @abstractmethod
    def describe_results(self, values: bool) -> Report:
        """Results by name, with tensor elements if ``values``."""

    @abstractmethod
    def kernel(self) -> str:
        """The standard operator behind this one; empty if there is none."""

    @abstractmethod
    def start_comparison(self, max_bytes: int) -> Comparison:
        """Copy the inputs to the CPU unless they exceed ``max_bytes``."""

    @abstractmethod
    def save_inputs(self, max_bytes: int, copy: bool) -> SavedInputs:
        """Copy all inputs, or without ``copy`` only those that the call overwrites."""

    @abstractmethod
    def outputs(self) -> dict[str, Any]:
        """Results and written arguments, by name and without repetition."""

    @abstractmethod
    def severity(self, values: list[Any]) -> int:
        """The worst of FINITE, INF and NAN among tensors and numbers; see :mod:`hardpoint.debug._ranges`."""

    @abstractmethod
    def ranges(self, values: dict[str, Any]) -> Report:
        """The value range of each tensor."""

    @abstractmethod
    def storages(self) -> Iterator[Storage]:
        """Device storages of the results and written arguments."""
