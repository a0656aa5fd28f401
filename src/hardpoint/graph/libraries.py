"""Compilers of subgraphs in shared libraries: a plug-in's own, or a kernel library's.

Such a library exports two TVM-FFI functions beside its kernels, ``__tvm_ffi_graph_supports`` and
``__tvm_ffi_graph_compile``. Both take a text, which describes a node or a subgraph in JSON.
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

from hardpoint import plugins
from hardpoint._runtime import core
from hardpoint.graph.converters import SUBGRAPH_COMPILERS, SubgraphKernel, register_compiler

EXPORTS = ("graph_supports", "graph_compile")
_numbers = itertools.count()


class LibraryCompiler:
    """The compiler of subgraphs that a shared library exports; for :func:`hardpoint.graph.register_compiler`."""

    def __init__(self, path: str | Path) -> None:
        import tvm_ffi

        # TVM-FFI passes the kinds of error that it knows by name, and this one means "not this subgraph".
        tvm_ffi.register_error("NotImplementedError", NotImplementedError)
        self.path = Path(path).absolute()
        if not exports_compiler(self.path):
            raise ValueError(f"{self.path} does not export __tvm_ffi_graph_supports and __tvm_ffi_graph_compile")
        library = tvm_ffi.load_module(str(self.path))
        self._supports, self._compile = (library.get_function(name) for name in EXPORTS)

    def supports(self, node: torch.fx.Node) -> bool:
        """Ask ``graph_supports`` about a node; only nodes that give tensors are offered."""
        value = node.meta.get("val")
        results = value if isinstance(value, (list, tuple)) else [value]
        if not all(isinstance(result, torch.Tensor) for result in results):
            return False
        return bool(self._supports(json.dumps(describe_node(node))))

    def compile(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> SubgraphKernel:
        """The function that ``graph_compile`` returns, as a kernel of the device."""
        function = self._compile(json.dumps(describe(module)))
        name = f"{self.path.stem}_subgraph_{next(_numbers)}"
        device = torch._C._get_privateuse1_backend_name()
        core.override_kernel(device, name, function.__chandle__(), 0)  # it keeps the function
        return SubgraphKernel(name)


def exports_compiler(path: Path) -> bool:
    """Whether a library has both functions."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return False
    return all(hasattr(library, f"__tvm_ffi_{name}") for name in EXPORTS)


@functools.cache
def register_plugin() -> None:
    """Offer subgraphs to the device's own plug-in, if its library has a compiler of them."""
    device = torch._C._get_privateuse1_backend_name()
    path = Path(plugins.origin(device))
    if device not in SUBGRAPH_COMPILERS and path.suffix == ".so" and exports_compiler(path):
        register_compiler(device, LibraryCompiler(path))


# ---- Descriptions


def describe(module: torch.fx.GraphModule) -> dict[str, Any]:
    """A subgraph: inputs, nodes in the order of execution, and which of them are outputs.

    The compiled function takes outputs, then inputs in this order, but tensors first and integers last.
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
    """An operator with its arguments by name, and the tensors that it gives. A size that varies is null."""
    schema = node.target._schema  # type: ignore[union-attr]
    given = {}
    for position, argument in enumerate(schema.arguments):
        value = node.args[position] if position < len(node.args) else None
        if position >= len(node.args):
            value = node.kwargs.get(argument.name, argument.default_value)
        given[argument.name] = _argument(value)
    value = node.meta["val"]
    results = value if isinstance(value, (list, tuple)) else [value]
    return {
        "name": node.name,
        "operator": schema.name,
        "overload": schema.overload_name,
        "arguments": given,
        "results": [_value(result) for result in results],
    }


def _value(value: Any) -> dict[str, Any]:
    if not isinstance(value, torch.Tensor):
        return {"dtype": "int64" if isinstance(value, (int, torch.SymInt)) else "float64"}
    shape = [size if isinstance(size, int) else None for size in value.shape]
    return {"dtype": str(value.dtype).removeprefix("torch."), "shape": shape}


def _argument(value: Any) -> Any:
    """``{"node": name, "result": k}`` for what a node gives; numbers, texts, null and lists as they are."""
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
