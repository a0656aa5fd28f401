"""What graph mode made of a model: nodes, fused regions, the plan of memory, and what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hardpoint.graph.lowering import Lowered

_listeners: list[Explanation] = []


def collect(name: str, lowered: Lowered) -> None:
    """Tell explanations that are being made about a graph."""
    for listener in _listeners:
        listener.graphs.append(Graph(name, lowered))


@dataclass
class Graph:
    """One graph of a model: forward, backward, or a part between graph breaks."""

    name: str
    lowered: Lowered
    plan: dict[str, Any] | None = None  #: of the recorded run

    @property
    def nodes(self) -> int:
        """Operators in the graph."""
        return self.lowered.nodes

    @property
    def fused(self) -> list[str]:
        """The regions that are one kernel each."""
        return [unit.name for unit in self.lowered.fused]

    @property
    def launches(self) -> int | None:
        """Kernels and copies of one replay; None where nothing was recorded."""
        return len(self.plan["launches"]) if self.plan else None

    @property
    def left_out(self) -> list[tuple[str, str]]:
        """Instructions that are executed one by one, and why."""
        if self.plan:
            return [(str(name), str(why)) for name, why in self.plan["left_out"]]
        reason = self.lowered.runner.reason
        return [("the whole graph", reason)] if reason else []

    def lines(self) -> Iterator[str]:
        """A report of it."""
        inside = sum(len(unit.nodes) for unit in self.lowered.fused)
        yield f"{self.name}: {self.nodes} nodes; {inside} of them in {len(self.fused)} fused kernels"
        for unit in self.lowered.fused:
            yield f"  fused: {' + '.join(str(node.target) for node in unit.nodes)}"
        for node, kernel in self.lowered.kernels:
            yield f"  converted: {node} -> kernel {kernel}"
        for name, count in self.lowered.taken:
            yield f"  taken by {name}: {count} nodes"
        if self.plan:
            temporaries = self.plan["temporaries"]
            total = sum(size for size, *_ in temporaries)
            yield (
                f"  recorded: {len(self.plan['launches'])} launches; {len(temporaries)} temporaries of {_bytes(total)} "
                f"in {_bytes(self.plan['arena_bytes'])} (at most {_bytes(self.plan['most_alive'])} alive at a time), "
                f"{len(self.plan['separate'])} more of {_bytes(sum(self.plan['separate']))} one by one; "
                f"outputs: {_bytes(sum(self.plan['kept']))}"
            )
        for name, why in self.left_out:
            yield f"  left out of the recording: {name}: {why}"


@dataclass
class Explanation:
    """What graph mode made of a model. ``print`` it."""

    graphs: list[Graph] = field(default_factory=list)
    #: Why Dynamo broke the graph, each time that it did.
    breaks: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [line for graph in self.graphs for line in graph.lines()]
        lines += [f"graph break: {reason}" for reason in self.breaks]
        return "\n".join(lines)


def explain(model: Any, inputs: Any, *, backward: bool = False) -> Explanation:
    """Compile a model for these inputs and run it until it is recorded; say what came out.

    ``inputs`` is a tuple of positional arguments, a dict of named ones, or a single tensor. ``backward=True`` runs the
    gradients of the sum of all outputs, too; they are not added to the parameters'.
    """
    import torch
    from torch._dynamo.utils import counters

    made = Explanation()
    args: tuple[Any, ...] = () if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple) else (inputs,)
    kwargs: dict[str, Any] = inputs if isinstance(inputs, dict) else {}
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
