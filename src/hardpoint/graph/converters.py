"""What vendors add to graph mode: converters of single nodes, and compilers of whole subgraphs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar


class GraphWarning(UserWarning):
    """A part of a graph runs eagerly, and why."""


def warn(message: str) -> None:
    """Tell the user about a part that runs eagerly."""
    warnings.warn(f"hardpoint.graph: {message}", GraphWarning, stacklevel=2)


@dataclass(frozen=True)
class Call:
    """A call of the vendor's kernel of that name, in destination-passing style: outputs, inputs, attributes.

    Outputs are described by tensors, such as ``node.meta["val"]``: their shapes, dtypes and strides count. Inputs are
    nodes of the graph that give tensors, or None; attributes are numbers, booleans, lists of integers, or nodes that
    give numbers.
    """

    kernel: str
    outputs: Sequence[Any]
    inputs: Sequence[Any]
    attributes: Sequence[Any] = ()


Converter = Callable[[Any], Call | None]
_C = TypeVar("_C", bound=Converter)

CONVERTERS: dict[Any, Converter] = {}


def converter(overload: Any) -> Callable[[_C], _C]:
    """Turn nodes of an operator, such as ``torch.ops.myops.my_op.default``, into calls of a vendor's kernel.

    The function gets the ``torch.fx.Node``, with ``node.meta["val"]`` describing its result, and returns a
    :class:`Call`, or None for a node that it leaves to the operator itself. The operator stays one node: nothing
    decomposes it.
    """
    import torch

    if not isinstance(overload, torch._ops.OpOverload):
        raise TypeError(f"a converter is for one overload, such as torch.ops.myops.my_op.default, not for {overload!r}")

    def register(function: _C) -> _C:
        CONVERTERS[overload] = function
        return function

    return register


@dataclass(frozen=True)
class SubgraphKernel:
    """What a subgraph became: the device's kernel of that name. It takes outputs, tensors, then integers."""

    name: str


class SubgraphCompiler(Protocol):
    """Takes whole subgraphs: a plug-in's own graph compiler, or any object with these two functions."""

    def supports(self, node: Any) -> bool:
        """Whether a ``torch.fx.Node`` may be part of a subgraph."""

    def compile(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any] | SubgraphKernel:
        """A function in place of a ``torch.fx.GraphModule``: it takes tensors and returns a tensor or a tuple.

        Or a :class:`SubgraphKernel`, which runs without Python.
        ``inputs`` describe what it will be called with. To decline, raise ``NotImplementedError``.
        """


SUBGRAPH_COMPILERS: dict[str, SubgraphCompiler] = {}


def register_compiler(name: str, compiler: SubgraphCompiler) -> None:
    """Offer subgraphs to a compiler, under a name that reports show. Those registered first are asked first."""
    SUBGRAPH_COMPILERS[name] = compiler


def unregister_compiler(name: str) -> None:
    """Offer it no more."""
    SUBGRAPH_COMPILERS.pop(name, None)


#: Where a node that stands for a subgraph has the call of the kernel that was made of it.
KERNEL = "hardpoint_kernel"


def convert(node: Any) -> Call | None:
    """The call that a converter makes of a node; None, with a warning where it fails or gives something else."""
    function = CONVERTERS.get(node.target)
    if function is None:
        return None
    try:
        call = function(node)
    except Exception as error:
        warn(f"{node.target} runs eagerly, since its converter failed: {type(error).__name__}: {error}")
        return None
    if call is None:
        return None
    problem = _problem(node, call)
    if problem:
        warn(f"{node.target} runs eagerly, since its converter {problem}")
        return None
    return call


def _problem(node: Any, call: Any) -> str:
    """What is wrong with a converter's answer, or nothing."""
    import torch

    if not isinstance(call, Call):
        return f"returned {type(call).__name__}, not hardpoint.graph.Call"
    value = node.meta.get("val")
    results = list(value) if isinstance(value, (list, tuple)) else [value]
    if len(call.outputs) != len(results):
        return f"returned {len(call.outputs)} outputs, where the operator has {len(results)}"
    for k, (output, result) in enumerate(zip(call.outputs, results, strict=True)):
        if not isinstance(output, torch.Tensor):
            return f"described output {k} by {type(output).__name__}, not by a tensor"
        if [str(s) for s in output.shape] != [str(s) for s in result.shape]:
            return f"returned shape {tuple(output.shape)} for output {k}, where the operator has {tuple(result.shape)}"
        if output.dtype != result.dtype:
            return f"returned {output.dtype} for output {k}, where the operator has {result.dtype}"
    for k, given in enumerate(call.inputs):
        if given is not None and not isinstance(given, torch.fx.Node):
            return f"gave {type(given).__name__} for input {k}, not a node"
    return ""
