"""Partition a graph among the registered subgraph compilers."""

from __future__ import annotations

from typing import Any

import torch

from hardpoint.graph.converters import KERNEL, SUBGRAPH_COMPILERS, Call, SubgraphCompiler, SubgraphKernel, warn
from hardpoint.graph.library_compiler import register_plugin
from hardpoint.graph.nodes import is_mutation


def compile_subgraphs(module: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[tuple[str, int]]]:
    """Replace supported subgraphs by compiled calls; also returns (compiler, node count) of each."""
    delegated: list[tuple[str, int]] = []
    register_plugin()
    for name, compiler in SUBGRAPH_COMPILERS.items():
        module = _offer(module, name, compiler, delegated)
    return module, delegated


def _offer(
    module: torch.fx.GraphModule, name: str, compiler: SubgraphCompiler, delegated: list[tuple[str, int]]
) -> torch.fx.GraphModule:
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Support(OperatorSupportBase):  # type: ignore[misc]
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            is_operator = node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            if not is_operator or is_mutation(node):
                return False
            try:
                return bool(compiler.supports(node))
            except Exception as error:
                warn(f"{node.name} ({node.target}) is not passed to {name}: supports() failed: {error}")
                return False

    partitioner = CapabilityBasedPartitioner(module, Support(), allows_single_node_partition=True)
    partitions = partitioner.propose_partitions()
    if not partitions:
        return module
    module = partitioner.fuse_partitions(partitions)
    for node in list(module.graph.nodes):
        if node.op != "call_module":
            continue
        part = module.get_submodule(node.target)
        inner = [n for n in part.graph.nodes if n.op == "call_function"]
        values = [given.meta.get("val") for given in node.args]
        try:
            function = compiler.compile(part, values)
        except Exception as error:
            names = ", ".join(dict.fromkeys(str(n.target) for n in inner))
            warn(f"{name} does not compile a subgraph of {names}: compile() failed: {type(error).__name__}: {error}")
            _inline(module, node, part)
            continue
        delegated.append((name, len(inner)))
        _replace(module, node, part, function, name)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


def _results(part: torch.fx.GraphModule) -> tuple[Any, bool]:
    """Output nodes of a subgraph, and whether it returns several."""
    output = next(n for n in part.graph.nodes if n.op == "output").args[0]
    many = isinstance(output, (list, tuple))
    return list(output) if many else [output], many


def _replace(module: torch.fx.GraphModule, node: Any, part: torch.fx.GraphModule, function: Any, name: str) -> None:
    is_kernel = isinstance(function, SubgraphKernel)

    def call(*values: Any) -> Any:
        return part.forward(*values) if is_kernel else function(*values)

    call.__name__ = f"subgraph of {name}"
    outputs, many = _results(part)
    values = [n.meta["val"] for n in outputs]
    with module.graph.inserting_before(node):
        made = module.graph.call_function(call, node.args)
        made.meta["val"] = values if many else values[0]
    if is_kernel:
        tensors = [given for given in node.args if isinstance(given.meta.get("val"), torch.Tensor)]
        made.meta[KERNEL] = Call(function.name, values, tensors, [given for given in node.args if given not in tensors])
    node.replace_all_uses_with(made)
    module.graph.erase_node(node)


def _inline(module: torch.fx.GraphModule, node: Any, part: torch.fx.GraphModule) -> None:
    """Replace the call of a subgraph by its nodes."""
    inside: dict[Any, Any] = dict(zip((n for n in part.graph.nodes if n.op == "placeholder"), node.args, strict=True))
    with module.graph.inserting_before(node):
        for each in part.graph.nodes:
            if each.op == "call_function":
                inside[each] = module.graph.node_copy(each, inside.__getitem__)
    outputs, many = _results(part)
    if not many:
        node.replace_all_uses_with(inside[outputs[0]])
    else:
        for user in list(node.users):
            user.replace_all_uses_with(inside[outputs[user.args[1]]])
            module.graph.erase_node(user)
    module.graph.erase_node(node)
