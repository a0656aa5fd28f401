"""Report of a compiled model: nodes, fused regions, memory plan, and unrecorded instructions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

from hardpoint.graph.lowering import Lowered

if TYPE_CHECKING:
    import torch

_listeners: list[Explanation] = []


def collect(name: str, lowered: Lowered) -> None:
    """Add a compiled graph to the active explanations."""
    for listener in _listeners:
        listener.graphs.append(Graph(name, lowered))


class MemoryPlan(TypedDict):
    """Launches and memory of a recorded run. Sizes are in bytes."""

    launches: list[str]
    left_out: list[tuple[str, str]]
    temporaries: list[tuple[int, int, int, int]]
    separate: list[int]
    kept: list[int]
    arena_bytes: int
    most_alive: int


@dataclass
class Graph:
    """One compiled graph: forward, backward, or the region between two graph breaks."""

    name: str
    lowered: Lowered
    plan: MemoryPlan | None = None  #: memory plan of the recorded run

    @property
    def nodes(self) -> int:
        """Number of operators in the graph."""
        return self.lowered.nodes

    @property
    def fused(self) -> list[str]:
        """Names of the fused kernels."""
        return [unit.name for unit in self.lowered.fused]

    @property
    def launches(self) -> int | None:
        """Number of kernels and copies in one replay; None if nothing was recorded."""
        return len(self.plan["launches"]) if self.plan else None

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """Instructions left out of the recording, with the reason."""
        if self.plan:
            return [(str(name), str(why)) for name, why in self.plan["left_out"]]
        reason = self.lowered.runner.reason
        return [("the whole graph", reason)] if reason else []

    def lines(self) -> Iterator[str]:
        """Lines of the report."""
        inside = sum(len(unit.nodes) for unit in self.lowered.fused)
        yield f"{self.name}: {self.nodes} nodes; {inside} of them in {len(self.fused)} fused kernels"
        for unit in self.lowered.fused:
            yield f"  fused: {' + '.join(str(node.target) for node in unit.nodes)}"
        for node, kernel in self.lowered.kernels:
            yield f"  converted: {node} -> kernel {kernel}"
        for name, count in self.lowered.delegated:
            yield f"  compiled by {name}: {count} nodes"
        if self.plan:
            temporaries = self.plan["temporaries"]
            total = sum(size for size, *_ in temporaries)
            yield (
                f"  recorded: {len(self.plan['launches'])} launches; {len(temporaries)} temporaries of {_bytes(total)} "
                f"in {_bytes(self.plan['arena_bytes'])} (peak {_bytes(self.plan['most_alive'])} live), "
                f"{len(self.plan['separate'])} more of {_bytes(sum(self.plan['separate']))} allocated separately; "
                f"outputs: {_bytes(sum(self.plan['kept']))}"
            )
        for name, why in self.left_out:
            yield f"  left out of the recording: {name}: {why}"


@dataclass
class Explanation:
    """Printable report of a compiled model."""

    graphs: list[Graph] = field(default_factory=list)
    #: Reasons for Dynamo's graph breaks.
    breaks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [line for graph in self.graphs for line in graph.lines()]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


def explain(
    model: Callable[..., object],
    inputs: torch.Tensor | tuple[object, ...] | Mapping[str, object],
    *,
    backward: bool = False,
) -> Explanation:
    """Compile a model for these inputs, run it until it is recorded, and report the result.

    ``inputs`` is a tuple of positional arguments, a dict of keyword arguments, or one tensor. ``backward=True`` also
    runs the backward pass of the sum of all outputs; ``.grad`` of the parameters does not change.
    """
    import torch
    from torch._dynamo.utils import counters

    made = Explanation()
    kwargs = inputs if isinstance(inputs, Mapping) else {}
    args = () if isinstance(inputs, Mapping) else inputs if isinstance(inputs, tuple) else (inputs,)
    torch._dynamo.reset()
    breaks = dict(counters["graph_break"])
    with _listening(made):
        compiled = torch.compile(model, backend="hardpoint")
        for _ in range(3):
            with torch.set_grad_enabled(backward):
                result = compiled(*args, **kwargs)
            if backward:
                _gradients(model, result)
    for graph in made.graphs:
        graph.plan = graph.lowered.runner.describe()
    made.breaks = [reason for reason, count in counters["graph_break"].items() if count > breaks.get(reason, 0)]
    return made


def _gradients(model: Any, result: Any) -> None:
    import torch
    from torch.utils import _pytree as pytree

    outputs = [v for v in pytree.tree_leaves(result) if isinstance(v, torch.Tensor) and v.requires_grad]
    parameters = [p for p in getattr(model, "parameters", tuple)() if p.requires_grad]
    if outputs and parameters:
        torch.autograd.grad([v.float().sum() for v in outputs], parameters, allow_unused=True)


@contextmanager
def _listening(made: Explanation) -> Iterator[None]:
    _listeners.append(made)
    try:
        yield
    finally:
        _listeners.remove(made)


def _bytes(count: int) -> str:
    value, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
