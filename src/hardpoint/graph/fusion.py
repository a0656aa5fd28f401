"""Regions of pointwise nodes that become one kernel."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from hardpoint.graph.inplace import can_be_early, readers
from hardpoint.graph.pointwise import NAMES, Part, parts_of
from hardpoint.kernels.fused import Region, Step

#: Of one kernel: outputs and inputs, and numbers that a launch passes. As in csrc/torch/graph_fused.h.
MAX_OPERANDS, MAX_NUMBERS = 16, 12
#: Numbers that a kernel is made for: the compiler then leaves out what they make needless.
LITERALS = (0, 1, -1, 2, 3, 0.5)


@dataclass
class Group:
    """Nodes over one iteration space, in the graph's order."""

    nodes: list[Any]
    space: tuple[str, ...]
    order: int = 0  #: when it was last changed
    members: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.members = set(self.nodes)


@dataclass(frozen=True)
class Fused:
    """A group as a kernel's region, with what it reads and the nodes that it gives."""

    nodes: tuple[Any, ...]
    region: Region
    inputs: tuple[Any, ...]
    numbers: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def name(self) -> str:
        """What counters and reports call it."""
        names = [node.target._schema.name.partition("::")[2] for node in self.nodes]
        shown = names if len(names) <= 6 else [*names[:5], f"and_{len(names) - 5}_more"]
        return f"hardpoint::fused({','.join(shown)})"


def fuse(nodes: list[Any]) -> list[Any]:
    """The nodes in an order in which they can be executed, with regions in place of the nodes that they hold."""
    fusion = _Fusion(nodes)
    for node in nodes:
        fusion.visit(node)
    return fusion.schedule()


class _Fusion:
    def __init__(self, nodes: list[Any]) -> None:
        self.index = {node: k for k, node in enumerate(nodes)}
        self.nodes = nodes
        self.needed = {
            node: {source for given in node.all_input_nodes for source in self._source(given)} for node in nodes
        }
        self.users: dict[Any, list[Any]] = {node: [] for node in nodes}
        for node, sources in self.needed.items():
            for source in sources:
                self.users[source].append(node)
        self.parts: dict[Any, tuple[Part, ...]] = {}
        self.group_of: dict[Any, Group] = {}

    def _source(self, given: Any) -> Iterable[Any]:
        """The node that computes a value: one that picks a result of another is not executed itself."""
        while given not in self.index and given.op == "call_function":
            given = given.args[0]
        return (given,) if given in self.index else ()

    def visit(self, node: Any) -> None:
        """Make the node part of a group of its producers, if it can be."""
        parts = parts_of(node)
        if not parts:
            return
        self.parts[node] = parts
        space = tuple(map(str, node.meta["val"].shape))
        group = self.group_of[node] = Group([node], space)
        for producer in node.all_input_nodes:
            other = self.group_of.get(producer)
            if other is None or other is group or other.space != space:
                continue
            group = self._merged(other, group) or group

    def _merged(self, first: Group, second: Group) -> Group | None:
        nodes = sorted([*first.nodes, *second.nodes], key=self.index.__getitem__)
        union = Group(nodes, first.space)
        if self._comes_back(union):
            return None
        try:
            self.region(union)
        except TooLarge:
            return None
        for node in nodes:
            self.group_of[node] = union
        return union

    def _unit(self, node: Any) -> Iterable[Any]:
        group = self.group_of.get(node)
        return group.nodes if group is not None else (node,)

    def _comes_back(self, union: Group) -> bool:
        """Whether a node outside needs one of the nodes and is needed by another: then they cannot be one kernel."""
        last = max(self.index[node] for node in union.nodes)
        seen: set[Any] = set()
        stack = [user for node in union.nodes for user in self.users[node] if user not in union.members]
        while stack:
            node = stack.pop()
            if node in seen:
                continue
            unit = list(self._unit(node))
            seen.update(unit)
            if len(unit) == 1 and self.index[node] > last:
                continue
            for each in unit:
                for user in self.users[each]:
                    if user in union.members:
                        return True
                    if user not in seen:
                        stack.append(user)
        return False

    def region(self, group: Group) -> Fused:
        """The group as a kernel's region. Raises TooLarge."""
        inputs: list[Any] = []
        numbers: list[Any] = []
        steps: list[Step] = []
        place: dict[Any, int] = {}  # of nodes and parts, among the steps

        def refer(given: Any, compute: torch.dtype) -> str:
            if isinstance(given, Part) or given in group.members:
                return f"s{place[given]}"
            if isinstance(given, torch.fx.Node) and isinstance(given.meta.get("val"), torch.Tensor):
                if given not in inputs:
                    inputs.append(given)
                return f"i{inputs.index(given)}"
            if not isinstance(given, torch.fx.Node) and given in LITERALS:
                return f"={float(given)}"
            key = (given, compute.is_floating_point)
            if key not in numbers:
                numbers.append(key)
            return f"n{numbers.index(key)}"

        for node in group.nodes:
            for part in self.parts[node]:
                values = tuple(refer(given, part.compute) for given in part.inputs)
                attributes = tuple(refer(given, part.compute) for given in part.attributes)
                compute, result = NAMES[part.compute], NAMES[part.result]
                place[part] = place[node] = len(steps)
                steps.append(Step(part.op, part.variant, compute, result, values, attributes))
        outputs = [node for node in group.nodes if any(user not in group.members for user in node.users)]
        if len(inputs) + len(outputs) > MAX_OPERANDS or len(numbers) > MAX_NUMBERS or not inputs:
            raise TooLarge
        if any(isinstance(n, float) and not math.isfinite(n) and not is_real for n, is_real in numbers):
            raise TooLarge
        region = Region(
            tuple(NAMES[node.meta["val"].dtype] for node in inputs),
            tuple(not is_real for _, is_real in numbers),
            tuple(steps),
            tuple(place[node] for node in outputs),
        )
        return Fused(tuple(group.nodes), region, tuple(inputs), tuple(n for n, _ in numbers), tuple(outputs))

    def schedule(self) -> list[Any]:
        """Units in an order that respects what they need, and the graph's own order where that leaves a choice."""
        units: dict[int, list[Any]] = {}
        unit_of: dict[Any, int] = {}
        for node in self.nodes:
            members = list(self._unit(node))
            key = self.index[members[-1]]
            units[key] = members
            for each in members:
                unit_of[each] = key
        needs = {key: self._needs(members, unit_of) - {key} for key, members in units.items()}
        place = {key: float(key) for key in units}
        barrier: int | None = None
        for key in sorted(units):
            # What writes to its arguments or draws random numbers keeps its place among its like, and writers come
            # after all that stood before them.
            node = units[key][-1]
            if len(units[key]) > 1 or not _is_ordered(node):
                continue
            if can_be_early(node):
                needs[key] |= {unit_of[r] for r in readers(node.args[0]) if r in unit_of} - {key}
                place[key] = max(needs[key], default=0) + 0.5
                continue
            if barrier is not None:
                needs[key].add(barrier)
            if _writes(node):
                needs[key] |= {other for other in units if other < key}
            barrier = key
        users: dict[int, list[int]] = {key: [] for key in units}
        for key, needed in needs.items():
            for other in needed:
                users[other].append(key)
        waiting = {key: len(needed) for key, needed in needs.items()}
        ready = [(place[key], key) for key, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order: list[Any] = []
        while ready:
            _, key = heapq.heappop(ready)
            members = units[key]
            order.append(self.region(self.group_of[members[0]]) if len(members) > 1 else members[0])
            for user in users[key]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (place[user], user))
        assert len(order) == len(units), "regions depend on each other in a circle"
        return order

    def _needs(self, members: list[Any], unit_of: dict[Any, int]) -> set[int]:
        return {unit_of[given] for node in members for given in self.needed[node]}


class TooLarge(Exception):
    """A region has more operands or numbers than a kernel takes."""


def _writes(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _is_ordered(node: Any) -> bool:
    """Whether its place among others of its kind matters."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return not isinstance(node.meta.get("val"), (torch.Tensor, int, torch.SymInt, torch.SymFloat))
    return _writes(node) or torch.Tag.nondeterministic_seeded in node.target.tags
