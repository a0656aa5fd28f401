"""Restore in-place buffer updates that AOTAutograd functionalized."""

from __future__ import annotations

import operator
from typing import Any

import torch

from hardpoint.ops.torch_overloads import FUNCTIONAL_UPDATES, HIDDEN_VIEWS
from hardpoint.torch.overloads import aten_overload

aten = torch.ops.aten


def reinplace_buffer_updates(module: torch.fx.GraphModule) -> None:
    """Let batch norm write its running statistics in place, as in eager mode, instead of through copies."""
    known = {aten_overload(name): update for name, update in FUNCTIONAL_UPDATES.items()}
    for node in list(module.graph.nodes):
        if node.op == "call_function" and node.target in known:
            _update_buffers(module.graph, node, *known[node.target])


def _update_buffers(graph: torch.fx.Graph, node: Any, name: str, positions: tuple[int, ...], free: int) -> None:
    items = {user.args[1]: user for user in node.users if user.target is operator.getitem}
    copies = []
    for position in positions:
        buffer = node.args[position]
        copy = _copy_of(items.get(position), buffer)
        if copy is None or any(user not in (node, copy) for user in buffer.users):
            return
        copies.append(copy)
    if not node.args[free]:  # the backward pass reads the old buffers
        return
    with graph.inserting_before(node):
        made = graph.call_function(aten_overload(name), node.args)
        made.meta["val"] = tuple(v for k, v in enumerate(node.meta["val"]) if k not in positions)
    for copy in copies:
        graph.erase_node(copy)
    for position, item in items.items():
        if position not in positions:
            item.update_arg(0, made)
        else:
            # Saved for a backward pass that does not read it.
            item.replace_all_uses_with(node.args[position])
            graph.erase_node(item)
    graph.erase_node(node)


def _copy_of(item: Any, buffer: Any) -> Any:
    """Node that copies the item to the buffer, if the item is otherwise only an output."""
    if item is None or getattr(buffer, "op", "") != "placeholder":
        return None
    copies = [user for user in item.users if user.target is aten.copy_.default and user.args[1] is item]
    if len(copies) != 1 or copies[0].args[0] is not buffer or copies[0].users:
        return None
    return copies[0] if all(user.op == "output" for user in item.users if user is not copies[0]) else None


def is_view(node: Any) -> bool:
    """Whether the result may alias an argument."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    schema = node.target._schema
    hidden = schema.name.removeprefix("aten::") in HIDDEN_VIEWS
    return hidden or any(r.alias_info is not None for r in schema.returns)


def readers(buffer: Any) -> set[Any]:
    """Nodes that read a tensor or a view of it."""
    found: set[Any] = set()
    stack = list(buffer.users)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        if node.op == "call_function" and is_view(node):
            stack += node.users
    return found


def can_move_early(copy: Any) -> bool:
    """Whether a copy to an input may be moved up to right after its source and the last read of the old value."""
    if copy.target is not aten.copy_.default or copy.users or copy.args[0].op != "placeholder":
        return False
    value = copy.args[1]
    return isinstance(value, torch.fx.Node) and value.op == "call_function" and not is_view(value)
