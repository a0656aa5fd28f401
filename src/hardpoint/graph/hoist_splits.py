"""Hoist splits above pointwise operators, so that these can fuse with the readers of each chunk.

Gates of recurrent layers are an example: the sum of two products, split in four.
"""

from __future__ import annotations

import operator
from typing import Any

import torch

from hardpoint.graph.pointwise import pointwise_steps
from hardpoint.ops.torch_overloads import SPLITS
from hardpoint.torch.overloads import aten_overload

#: Max views that hoisting may add; below the operand limit of a kernel.
MAX_VIEWS = 8


def hoist_splits(module: torch.fx.GraphModule) -> None:
    """Replace ``split(f(x, y))`` by ``f`` of the chunks of ``x`` and ``y`` where that enables fusion."""
    graph = module.graph
    splits = [aten_overload(name) for name in SPLITS]
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in splits and _is_profitable(node):
            _hoist(graph, node)
    graph.eliminate_dead_code()


def _is_profitable(split: Any) -> bool:
    """Whether only pointwise operators read the chunks, and nothing else reads the whole."""
    whole = split.args[0]
    if len(whole.users) != 1 or not pointwise_steps(whole):
        return False
    for item in split.users:
        if item.target is not operator.getitem or not item.users or not all(map(pointwise_steps, item.users)):
            return False
    return len(_inputs_to_split(split)) * len(split.users) <= MAX_VIEWS


def _inputs_to_split(split: Any) -> dict[Any, int]:
    """Inputs of the pointwise operator to split, with their dimension; the others are broadcast."""
    value = split.args[0].meta["val"]
    dim = (split.args[2] if len(split.args) > 2 else split.kwargs.get("dim", 0)) % value.dim()
    found = {}
    for given in split.args[0].all_input_nodes:
        tensor = given.meta.get("val")
        position = dim - value.dim() + tensor.dim() if isinstance(tensor, torch.Tensor) else -1
        if position >= 0 and not _is_one(tensor.shape[position]):
            found[given] = position
    return found


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _hoist(graph: torch.fx.Graph, split: Any) -> None:
    whole = split.args[0]
    mode = whole.meta["val"].fake_mode

    def call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made = graph.call_function(target, args, kwargs)
        values = torch.fx.map_arg((args, kwargs), lambda given: given.meta["val"])
        with mode:
            made.meta["val"] = target(*values[0], **values[1])
        return made

    with graph.inserting_before(split):
        inputs = _inputs_to_split(split)
        views = {given: call(split.target, (given, split.args[1], dim), {}) for given, dim in inputs.items()}
        for item in list(split.users):
            chunks = {given: call(operator.getitem, (view, item.args[1]), {}) for given, view in views.items()}
            made = call(whole.target, *torch.fx.map_arg((whole.args, whole.kwargs), lambda n, c=chunks: c.get(n, n)))
            item.replace_all_uses_with(made)
