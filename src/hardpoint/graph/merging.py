"""What a graph computes twice is computed once."""

from __future__ import annotations

import operator
from typing import Any

import torch

#: Results that are each call's own: random numbers, and numbers and sizes that graphs have symbols for.
_OWN = {torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


def merge_equal(graph: torch.fx.Graph) -> None:
    """Let operators that are given the same share their result.

    The pass that torch's partitioner has takes two draws of random numbers for the same ones.
    """
    from torch.multiprocessing.reductions import StorageWeakRef

    def memory(node: Any) -> Any:
        value = node.meta.get("val")
        return StorageWeakRef(value.untyped_storage()) if isinstance(value, torch.Tensor) else None

    *nodes, output = graph.nodes
    # Results that are tensors of their own in eager mode stay so: their user may write to one of them.
    returned = {memory(node) for node in output.all_input_nodes} - {None}
    known: dict[Any, Any] = {}
    for node in nodes:
        if _writes(node):
            known.clear()
        elif _is_pure(node) and memory(node) not in returned:
            first = known.setdefault((node.target, _key(node.args), _key(node.kwargs)), node)
            if first is not node:
                node.replace_all_uses_with(first)
                graph.erase_node(node)


def _writes(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _is_pure(node: Any) -> bool:
    """Whether the same arguments give the same result. Operators of others may not say so: only torch's own."""
    if node.target is operator.getitem:
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace in ("aten", "prims")
        and not _OWN.intersection(node.target.tags)
    )


def _key(given: Any) -> Any:
    """Equal for equal arguments: 1, 1.0 and True are not, nor are 0.0 and -0.0."""
    if isinstance(given, (list, tuple)):
        return tuple(map(_key, given))
    if isinstance(given, dict):
        return tuple((name, _key(value)) for name, value in given.items())
    if isinstance(given, (torch.fx.Node, torch.dtype, torch.device)):
        return given
    return type(given), repr(given)
