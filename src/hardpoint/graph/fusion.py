"""Fuse pointwise nodes into single kernels."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from hardpoint.graph.nodes import is_mutation
from hardpoint.graph.pointwise import DTYPE_NAMES, PointwiseStep, pointwise_steps
from hardpoint.graph.reinplace import can_move_early, readers
from hardpoint.kernels.fused import Region, Step

#: Max operands (outputs and inputs) and scalar arguments of one kernel, as in csrc/torch/graph/fused_region.h.
MAX_OPERANDS, MAX_NUMBERS = 16, 12
#: Scalars compiled into the kernel as literals, so that the compiler can simplify.
LITERALS = (0, 1, -1, 2, 3, 0.5)


@dataclass
class Group:
    """Nodes with one iteration space, in graph order."""

    nodes: list[Any]
    space: tuple[str, ...]
    members: set[Any] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.members = set(self.nodes)


@dataclass(frozen=True)
class Fused:
    """A fused kernel: its region, inputs and output nodes."""

    nodes: tuple[Any, ...]
    region: Region
    inputs: tuple[Any, ...]
    numbers: tuple[Any, ...]
    outputs: tuple[Any, ...]

    @property
    def name(self) -> str:
        """Name in counters and reports."""
        names = [node.target._schema.name.partition("::")[2] for node in self.nodes]
        shown = names if len(names) <= 6 else [*names[:5], f"and_{len(names) - 5}_more"]
        return f"hardpoint::fused({','.join(shown)})"


def fuse(nodes: list[Any]) -> list[Any]:
    """Fuse nodes and return nodes and fused regions in a valid execution order."""
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
        self.parts: dict[Any, tuple[PointwiseStep, ...]] = {}
        self.group_of: dict[Any, Group] = {}

    def _source(self, given: Any) -> Iterable[Any]:
        """Node that computes a value; getitem nodes are resolved to their argument."""
        while given not in self.index and given.op == "call_function":
            given = given.args[0]
        return (given,) if given in self.index else ()

    def visit(self, node: Any) -> None:
        """Merge the node into a group of its producers if possible."""
        parts = pointwise_steps(node)
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
        if self._creates_cycle(union):
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

    def _creates_cycle(self, union: Group) -> bool:
        """Whether fusing the group creates a cycle: a path leaves the group and comes back to it."""
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
        """Build the fused kernel of a group. Raises TooLarge."""
        inputs: list[Any] = []
        numbers: list[Any] = []
        steps: list[Step] = []
        index_of: dict[Any, int] = {}  # node or pointwise step -> index in ``steps``

        def refer(given: Any, compute: torch.dtype) -> str:
            if isinstance(given, PointwiseStep) or given in group.members:
                return f"s{index_of[given]}"
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
                compute, result = DTYPE_NAMES[part.compute], DTYPE_NAMES[part.result]
                index_of[part] = index_of[node] = len(steps)
                steps.append(Step(part.op, part.variant, compute, result, values, attributes))
        outputs = [node for node in group.nodes if any(user not in group.members for user in node.users)]
        if len(inputs) + len(outputs) > MAX_OPERANDS or len(numbers) > MAX_NUMBERS or not inputs:
            raise TooLarge
        if any(isinstance(n, float) and not math.isfinite(n) and not is_real for n, is_real in numbers):
            raise TooLarge
        region = Region(
            tuple(DTYPE_NAMES[node.meta["val"].dtype] for node in inputs),
            tuple(not is_real for _, is_real in numbers),
            tuple(steps),
            tuple(index_of[node] for node in outputs),
        )
        return Fused(tuple(group.nodes), region, tuple(inputs), tuple(n for n, _ in numbers), tuple(outputs))

    def schedule(self) -> list[Any]:
        """Topological order of nodes and groups; ties follow graph order."""
        units: dict[int, list[Any]] = {}
        unit_of: dict[Any, int] = {}
        for node in self.nodes:
            members = list(self._unit(node))
            key = self.index[members[-1]]
            units[key] = members
            for each in members:
                unit_of[each] = key
        needs = {
            key: {unit_of[given] for node in members for given in self.needed[node]} - {key}
            for key, members in units.items()
        }
        priority = {key: float(key) for key in units}
        barrier: int | None = None
        for key in sorted(units):
            # Nodes that mutate arguments or draw random numbers keep their relative order, and a mutation follows
            # every node before it.
            node = units[key][-1]
            if len(units[key]) > 1 or not _is_ordered(node):
                continue
            if can_move_early(node):
                needs[key] |= {unit_of[r] for r in readers(node.args[0]) if r in unit_of} - {key}
                priority[key] = max(needs[key], default=0) + 0.5
                continue
            if barrier is not None:
                needs[key].add(barrier)
            if is_mutation(node):
                needs[key] |= {other for other in units if other < key}
            barrier = key
        users: dict[int, list[int]] = {key: [] for key in units}
        for key, needed in needs.items():
            for other in needed:
                users[other].append(key)
        waiting = {key: len(needed) for key, needed in needs.items()}
        ready = [(priority[key], key) for key, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        order: list[Any] = []
        while ready:
            _, key = heapq.heappop(ready)
            members = units[key]
            order.append(self.region(self.group_of[members[0]]) if len(members) > 1 else members[0])
            for user in users[key]:
                waiting[user] -= 1
                if waiting[user] == 0:
                    heapq.heappush(ready, (priority[user], user))
        assert len(order) == len(units), "fused regions form a cycle"
        return order


class TooLarge(Exception):
    """A region exceeds MAX_OPERANDS or MAX_NUMBERS."""


def _is_ordered(node: Any) -> bool:
    """Whether the node must keep its order relative to other mutations and random draws."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return not isinstance(node.meta.get("val"), (torch.Tensor, int, torch.SymInt, torch.SymFloat))
    return is_mutation(node) or torch.Tag.nondeterministic_seeded in node.target.tags
