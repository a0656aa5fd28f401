"""Subgraph compilers in shared libraries: a plug-in or a kernel library.

The library exports two TVM-FFI functions beside its kernels, ``__tvm_ffi_graph_supports`` and
``__tvm_ffi_graph_compile``. Each takes a JSON string that describes a node or a subgraph.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from hardpoint import _discovery
from hardpoint._runtime import core
from hardpoint.graph import nodes
from hardpoint.graph.converters import SUBGRAPH_COMPILERS, SubgraphKernel, register_compiler

EXPORTS = ("graph_supports", "graph_compile")
_numbers = itertools.count()


class LibraryCompiler:
    """Subgraph compiler exported by a shared library; pass it to :func:`hardpoint.graph.register_compiler`."""

    def __init__(self, path: str | Path) -> None:
        import tvm_ffi

        # TVM-FFI maps errors by registered name; NotImplementedError declines a subgraph.
        tvm_ffi.register_error("NotImplementedError", NotImplementedError)
        self.path = Path(path).absolute()
        if not exports_compiler(self.path):
            raise ValueError(f"{self.path} does not export __tvm_ffi_graph_supports and __tvm_ffi_graph_compile")
        library = tvm_ffi.load_module(str(self.path))
        self._supports, self._compile = (library.get_function(name) for name in EXPORTS)

    def supports(self, node: torch.fx.Node) -> bool:
        """Call ``graph_supports`` for a node whose results are all tensors."""
        if not all(isinstance(result, torch.Tensor) for result in nodes.results(node)):
            return False
        return bool(self._supports(json.dumps(describe_node(node))))

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor | int]) -> SubgraphKernel:
        """Call ``graph_compile`` and register the returned function as a device kernel."""
        function = self._compile(json.dumps(describe(module)))
        name = f"{self.path.stem}_subgraph_{next(_numbers)}"
        core.override_kernel(nodes.device_name(), name, function.__chandle__(), 0)  # holds a reference to the function
        return SubgraphKernel(name)


def exports_compiler(path: Path) -> bool:
    """Whether the library exports both functions."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return False
    return all(hasattr(library, f"__tvm_ffi_{name}") for name in EXPORTS)


@functools.cache
def register_plugin() -> None:
    """Register the subgraph compiler of the device's plug-in, if its library exports one."""
    device = nodes.device_name()
    path = Path(_discovery.origin(device))
    if device not in SUBGRAPH_COMPILERS and path.suffix == ".so" and exports_compiler(path):
        register_compiler(device, LibraryCompiler(path))


# ---- Descriptions


def describe(module: torch.fx.GraphModule) -> dict[str, Any]:
    """Describe a subgraph: inputs, nodes in execution order, and outputs.

    The compiled function takes outputs, then inputs in this order: tensors first, integers last.
    """
    inputs: list[Any] = []
    nodes: list[Any] = []
    outputs: list[Any] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append({"name": node.name, **_value(node.meta["val"])})
        elif node.op == "call_function" and node.target is not operator.getitem:
            nodes.append(describe_node(node))
        elif node.op == "output":
            given = node.args[0]
            outputs = [_argument(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
    return {"inputs": sorted(inputs, key=lambda each: "shape" not in each), "nodes": nodes, "outputs": outputs}


def describe_node(node: torch.fx.Node) -> dict[str, Any]:
    """Describe an operator: arguments by name, and result tensors. A dynamic size is null."""
    schema = node.target._schema  # type: ignore[union-attr]
    return {
        "name": node.name,
        "operator": schema.name,
        "overload": schema.overload_name,
        "arguments": {name: _argument(given) for name, given in nodes.arguments(node).items()},
        "results": [_value(result) for result in nodes.results(node)],
    }


def _value(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"dtype": "int64" if isinstance(value, (int, torch.SymInt)) else "float64"}
    shape = [size if isinstance(size, int) else None for size in value.shape]
    return {"dtype": str(value.dtype).removeprefix("torch."), "shape": shape}


def _argument(value: Any) -> Any:
    """Result k of a node as ``{"node": name, "result": k}``; numbers, strings, null and lists unchanged."""
    if isinstance(value, torch.fx.Node):
        if value.target is operator.getitem:
            return {"node": value.args[0].name, "result": value.args[1]}  # type: ignore[union-attr]
        described = {"node": value.name, "result": 0}
        tensor = value.meta.get("val")
        return {**described, **_value(tensor)} if isinstance(tensor, torch.Tensor) else described
    if isinstance(value, (list, tuple)):
        return [_argument(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
