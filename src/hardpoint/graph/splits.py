"""Pointwise operators in front of a split: computed part by part, so that they join the kernels that read the parts."""

from __future__ import annotations

import operator
from typing import Any

import torch

from hardpoint.graph.pointwise import parts_of

aten = torch.ops.aten
SPLITS = (aten.split.Tensor, aten.split_with_sizes.default)
#: Views that one kernel is to read instead of as many parts: it has room for some more.
MOST_VIEWS = 8


def compute_by_parts(module: torch.fx.GraphModule) -> None:
    """Gates of recurrent layers are such: the sum of two products, cut in four."""
    graph = module.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in SPLITS and _pays(node):
            _compute_by_parts(graph, node)
    graph.eliminate_dead_code()


def _pays(split: Any) -> bool:
    """Whether nobody but pointwise operators reads the parts, and nobody the whole."""
    whole = split.args[0]
    if len(whole.users) != 1 or not parts_of(whole):
        return False
    for item in split.users:
        if item.target is not operator.getitem or not item.users or not all(parts_of(user) for user in item.users):
            return False
    return len(_cut(split)) * len(split.users) <= MOST_VIEWS


def _cut(split: Any) -> dict[Any, int]:
    """What the whole is computed of and is cut with it, and along which dimension; the rest is the same for all."""
    value = split.args[0].meta["val"]
    dim = (split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)) % value.dim()
    found = {}
    for given in split.args[0].all_input_nodes:
        tensor = given.meta.get("val")
        place = dim - value.dim() + tensor.dim() if isinstance(tensor, torch.Tensor) else -1
        if place >= 0 and not _is_one(tensor.shape[place]):
            found[given] = place
    return found


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _compute_by_parts(graph: torch.fx.Graph, split: Any) -> None:
    whole = split.args[0]
    mode = whole.meta["val"].fake_mode

    def call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = graph.call_function(target, args, kwargs)
        values = torch.fx.map_arg((args, kwargs), lambda given: given.meta["val"])
        with mode:
            made.meta["val"] = target(*values[0], **values[1])
        return made

    with graph.inserting_before(split):
        views = {given: call(split.target, (given, split.args[1], dim), {}) for given, dim in _cut(split).items()}
        for item in list(split.users):
            parts = {given: call(operator.getitem, (view, item.args[1]), {}) for given, view in views.items()}
            made = call(whole.target, *torch.fx.map_arg((whole.args, whole.kwargs), lambda n, p=parts: p.get(n, n)))
            item.replace_all_uses_with(made)
