"""Vendor extension points of graph mode: node converters and subgraph compilers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import torch
    from torch.fx.node import Argument


class GraphWarning(UserWarning):
    """Part of a graph runs eagerly; the message gives the reason."""


def warn(message: str) -> None:
    """Warn that part of a graph runs eagerly."""
    warnings.warn(f"hardpoint.graph: {message}", GraphWarning, stacklevel=2)


@dataclass(frozen=True)
class Call:
    """A call of a vendor kernel by name, in destination-passing style: outputs, inputs, attributes.

    Outputs are example tensors, such as ``node.meta["val"]``, that give shape, dtype and strides. Inputs are nodes with
    tensor values, or None. Attributes are numbers, booleans, lists of integers, or nodes with number values.
    """

    kernel: str
    outputs: Sequence[torch.Tensor]
    inputs: Sequence[Argument]
    attributes: Sequence[Argument] = ()


Converter = Callable[["torch.fx.Node"], Call | None]
_C = TypeVar("_C", bound=Converter)

CONVERTERS: dict[object, Converter] = {}


def converter(overload: torch._ops.OpOverload) -> Callable[[_C], _C]:
    """Register a function that converts nodes of an overload to calls of a vendor kernel.

    ``overload`` is, for example, ``torch.ops.myops.my_op.default``. The function takes the ``torch.fx.Node``, whose
    ``node.meta["val"]`` describes the result, and returns a :class:`Call`, or None to run the operator itself. The
    operator is not decomposed.
    """
    import torch

    if not isinstance(overload, torch._ops.OpOverload):
        raise TypeError(f"a converter takes one overload, such as torch.ops.myops.my_op.default, got {overload!r}")

    def register(function: _C) -> _C:
        CONVERTERS[overload] = function
        return function

    return register


@dataclass(frozen=True)
class SubgraphKernel:
    """A compiled subgraph: a device kernel by name. It takes outputs, then tensor inputs, then integers."""

    name: str


class SubgraphCompiler(Protocol):
    """Interface of a subgraph compiler."""

    def supports(self, node: torch.fx.Node) -> bool:
        """Return whether a ``torch.fx.Node`` may be part of a subgraph."""

    def compile(
        self, module: torch.fx.GraphModule, inputs: Sequence[torch.Tensor | int]
    ) -> Callable[..., torch.Tensor | tuple[torch.Tensor, ...]] | SubgraphKernel:
        """Compile a ``torch.fx.GraphModule`` to a function from tensors to a tensor or a tuple of tensors.

        It may also return a :class:`SubgraphKernel`, which runs without Python. ``inputs`` are example values. Raise
        ``NotImplementedError`` to decline.
        """


SUBGRAPH_COMPILERS: dict[str, SubgraphCompiler] = {}


def register_compiler(name: str, compiler: SubgraphCompiler) -> None:
    """Register a subgraph compiler under a name for reports. Compilers are tried in registration order."""
    SUBGRAPH_COMPILERS[name] = compiler


def unregister_compiler(name: str) -> None:
    """Remove a subgraph compiler."""
    SUBGRAPH_COMPILERS.pop(name, None)


#: Key in ``node.meta`` that holds the :class:`Call` of a compiled subgraph.
KERNEL = "hardpoint_kernel"


def convert(node: torch.fx.Node) -> Call | None:
    """Convert a node; None without a converter, or, with a warning, if the converter fails or returns a wrong call."""
    function = CONVERTERS.get(node.target)
    if function is None:
        return None
    try:
        call = function(node)
    except Exception as error:
        warn(f"{node.target} runs eagerly because its converter failed: {type(error).__name__}: {error}")
        return None
    if call is None or not (problem := _problem(node, call)):
        return call
    warn(f"{node.target} runs eagerly because its converter {problem}")
    return None


def _problem(node: torch.fx.Node, call: Any) -> str:
    """Describe what is wrong with a converter's result; empty if it is valid."""
    import torch

    if not isinstance(call, Call):
        return f"returned {type(call).__name__}, expected hardpoint.graph.Call"
    value = node.meta.get("val")
    results = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(call.outputs) != len(results):
        return f"returned {len(call.outputs)} outputs, expected {len(results)}"
    for k, (output, result) in enumerate(zip(call.outputs, results, strict=True)):
        if not isinstance(output, torch.Tensor):
            return f"described output {k} with {type(output).__name__}, expected a tensor"
        if [str(s) for s in output.shape] != [str(s) for s in result.shape]:
            return f"returned shape {tuple(output.shape)} for output {k}, expected {tuple(result.shape)}"
        if output.dtype != result.dtype:
            return f"returned {output.dtype} for output {k}, expected {result.dtype}"
    for k, given in enumerate(call.inputs):
        if given is not None and not isinstance(given, torch.fx.Node):
            return f"passed {type(given).__name__} for input {k}, expected a node"
    return ""
