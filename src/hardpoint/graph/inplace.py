"""Updates of buffers that AOTAutograd has taken apart, put together again where that changes nothing."""

from __future__ import annotations

import operator
from typing import Any

import torch

from hardpoint.ops.torch_overloads import HIDDEN_VIEWS, UPDATES

aten = torch.ops.aten


def update_in_place(module: torch.fx.GraphModule) -> None:
    """Batch norms write their running statistics themselves, as in eager mode, instead of copies."""
    known = {getattr(aten, name).default: update for name, update in UPDATES.items()}
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
    if not node.args[free]:  # then gradients need the buffers as they were
        return
    with graph.inserting_before(node):
        made = graph.call_function(getattr(aten, name).default, node.args)
        made.meta["val"] = tuple(v for k, v in enumerate(node.meta["val"]) if k not in positions)
    for copy in copies:
        graph.erase_node(copy)
    for position, item in items.items():
        if position not in positions:
            item.update_arg(0, made)
        else:
            # Saved for a gradient that does not read them.
            item.replace_all_uses_with(node.args[position])
            graph.erase_node(item)
    graph.erase_node(node)


def _copy_of(item: Any, buffer: Any) -> Any:
    """The node that copies the item to the buffer, if the rest that happens to it is to be an output."""
    if item is None or getattr(buffer, "op", "") != "placeholder":
        return None
    copies = [user for user in item.users if user.target is aten.copy_.default and user.args[1] is item]
    if len(copies) != 1 or copies[0].args[0] is not buffer or copies[0].users:
        return None
    return copies[0] if all(user.op == "output" for user in item.users if user is not copies[0]) else None


def is_view(node: Any) -> bool:
    """Whether an operator's result may share memory with what it reads."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    schema = node.target._schema
    hidden = schema.name.removeprefix("aten::") in HIDDEN_VIEWS
    return hidden or any(r.alias_info is not None for r in schema.returns)


def readers(buffer: Any) -> set[Any]:
    """The nodes that read a tensor or a view of it."""
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


def can_be_early(copy: Any) -> bool:
    """Whether a copy to an input may stand right after what it copies and all that reads the input's old value."""
    if copy.target is not aten.copy_.default or copy.users or copy.args[0].op != "placeholder":
        return False
    value = copy.args[1]
    return isinstance(value, torch.fx.Node) and value.op == "call_function" and not is_view(value)
