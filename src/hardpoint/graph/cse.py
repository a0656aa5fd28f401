"""Common subexpression elimination."""

from __future__ import annotations

import operator
from typing import Any

import torch

from hardpoint.graph.nodes import is_mutation

#: Tags of operators whose calls are never equal: random draws, and data-dependent values and shapes.
_NOT_PURE = {torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def eliminate_common_subexpressions(graph: torch.fx.Graph) -> None:
    """Merge calls of an operator with equal arguments.

    torch's partitioner has such a pass, but it also merges random draws.
    """
    from torch.multiprocessing.reductions import StorageWeakRef

    def memory(node: Any) -> Any:
        value = node.meta.get("val")
        return StorageWeakRef(value.untyped_storage()) if isinstance(value, torch.Tensor) else None

    *nodes, output = graph.nodes
    # Outputs that are distinct tensors in eager mode stay distinct: the caller may write to one of them.
    returned = {memory(node) for node in output.all_input_nodes} - {None}
    known: dict[Any, Any] = {}
    for node in nodes:
        if is_mutation(node):
            known.clear()
        elif _is_pure(node) and memory(node) not in returned:
            first = known.setdefault((node.target, _key(node.args), _key(node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)


def _is_pure(node: Any) -> bool:
    """Whether equal arguments give equal results. Tags are only reliable for torch's own operators."""
    if node.target is operator.getitem:
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace in ("aten", "prims")
        and not _NOT_PURE.intersection(node.target.tags)
    )


def _key(given: Any) -> Any:
    """Hashable key of an argument. 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(given, (list, tuple)):
        return tuple(map(_key, given))
    if isinstance(given, dict):
        return tuple((name, _key(value)) for name, value in given.items())
    if isinstance(given, (torch.fx.Node, torch.dtype, torch.device)):
        return given
    return type(given), repr(given)
