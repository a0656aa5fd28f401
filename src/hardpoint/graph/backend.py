"""``torch.compile(model, backend="hardpoint")``: runs AOTAutograd graphs as adapter programs."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from hardpoint.graph import nodes
from hardpoint.graph.converters import warn
from hardpoint.graph.cse import eliminate_common_subexpressions
from hardpoint.graph.hoist_splits import hoist_splits
from hardpoint.graph.lowering import lower
from hardpoint.graph.reinplace import reinplace_buffer_updates
from hardpoint.graph.report import collect
from hardpoint.graph.subgraphs import compile_subgraphs
from hardpoint.ops.torch_overloads import NOT_DECOMPOSED_IN_GRAPHS
from hardpoint.torch.overloads import aten_overload

_numbers = itertools.count()


def backend(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **unused: Any
) -> Callable[..., Any]:
    """Compile a Dynamo graph; ``torch.compile`` calls this.

    ``options={"record": False}`` disables launch recording: every run executes instruction by instruction.
    """
    options = dict(options or {})
    if unknown := options.keys() - {"record"}:
        raise ValueError(f"backend 'hardpoint' has no option {', '.join(sorted(unknown))}; expected: record")
    from torch._dynamo.backends.common import aot_autograd

    import hardpoint.torch

    hardpoint.torch.mount()
    _disable_decompositions()
    _warn_about_breaks()
    number = next(_numbers)
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=partial(compile_graph, name=f"graph {number}, forward", options=options),
        bw_compiler=partial(compile_graph, name=f"graph {number}, backward", options=options),
        inference_compiler=partial(_compile_inference, name=f"graph {number}", options=options),
        partition_fn=_partition,
        decompositions={},  # lower to ATen operators as they are
        keep_inference_input_mutations=True,  # update buffers inside the graph
    )(module, inputs)
    return compiled


@functools.cache
def _disable_decompositions() -> None:
    """Trace these operators through the device's dispatcher kernels instead of torch's decompositions."""
    keys = torch._C.DispatchKey
    for name in NOT_DECOMPOSED_IN_GRAPHS:
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd")
        # py_impl accepts a dispatch key in place of a function: it forwards to the C++ kernel of that key.
        kernel = keys.CompositeImplicitAutograd if composite else keys.Autograd
        aten_overload(name).py_impl(keys.AutogradPrivateUse1)(kernel)


_warned: set[str] = set()


def _warn_about_breaks() -> None:
    """Warn about operators that Dynamo cannot trace; it silently runs them in eager mode."""
    from torch._dynamo.utils import counters

    for reason in counters["graph_break"]:
        found = re.search(r"unsupported operator: (\S+)", reason)
        if found and found[1] not in _warned:
            _warned.add(found[1])
            warn(
                f"{found[1]} runs eagerly and breaks the graph: it has no fake implementation to infer output shapes "
                "(add one with torch.library.register_fake)"
            )


def _partition(joint: torch.fx.GraphModule, *arguments: Any, **named: Any) -> Any:
    """Split a joint graph into forward and backward."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config

    eliminate_common_subexpressions(joint.graph)
    with config.patch(cse=False):  # torch's CSE also merges random draws
        return min_cut_rematerialization_partition(joint, *arguments, compiler="hardpoint", **named)


def _compile_inference(module: torch.fx.GraphModule, inputs: Sequence[Any], **named: Any) -> Callable[..., Any]:
    eliminate_common_subexpressions(module.graph)
    return compile_graph(module, inputs, **named)


def compile_graph(
    module: torch.fx.GraphModule, inputs: Sequence[Any], name: str, options: dict[str, Any]
) -> Callable[..., Any]:
    """Compile a graph of ATen operators to a boxed function, which clears its argument list."""
    reinplace_buffer_updates(module)
    module, delegated = compile_subgraphs(module)
    hoist_splits(module)
    lowered = lower(module, name)
    lowered.delegated = delegated
    runner = lowered.runner
    devices = {value.device.type for value in inputs if isinstance(value, torch.Tensor)}
    runner.record = options.get("record", True) and nodes.device_name() in devices
    collect(name, lowered)

    def run(values: list[Any]) -> list[Any]:
        result: list[Any] = runner(values)
        return result

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
