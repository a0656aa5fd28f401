"""``torch.compile(model, backend="hardpoint")``: AOTAutograd's graphs as programs of the adapter."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from hardpoint.graph.converters import warn
from hardpoint.graph.explaining import collect
from hardpoint.graph.inplace import update_in_place
from hardpoint.graph.lowering import lower
from hardpoint.graph.merging import merge_equal
from hardpoint.graph.splits import compute_by_parts
from hardpoint.graph.subgraphs import take
from hardpoint.ops.torch_overloads import KEPT_WHOLE

_numbers = itertools.count()


def backend(
    module: torch.fx.GraphModule, inputs: Sequence[Any], *, options: dict[str, Any] | None = None, **unused: Any
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's: what ``torch.compile`` calls.

    ``options={"record": False}`` executes every run instruction by instruction, without recording launches.
    """
    options = dict(options or {})
    if unknown := options.keys() - {"record"}:
        raise ValueError(f"backend 'hardpoint' has no option {', '.join(sorted(unknown))}; it has: record")
    from torch._dynamo.backends.common import aot_autograd

    import hardpoint.torch

    hardpoint.torch.mount()
    _keep_whole()
    _tell_about_breaks()
    number = next(_numbers)
    made = aot_autograd(
        fw_compiler=partial(compile_graph, name=f"graph {number}, forward", options=options),
        bw_compiler=partial(compile_graph, name=f"graph {number}, backward", options=options),
        inference_compiler=partial(_compile_merged, name=f"graph {number}", options=options),
        partition_fn=_partition,
        decompositions=decompositions(),
        keep_inference_input_mutations=True,  # buffers are updated inside of the graph
    )(module, inputs)
    compiled: Callable[..., Any] = made
    return compiled


@functools.cache
def _keep_whole() -> None:
    """Trace these operators by the dispatcher's own kernels for our device, not by torch's decompositions."""
    keys = torch._C.DispatchKey
    for name in KEPT_WHOLE:
        packet, _, overload = name.partition(".")
        composite = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "CompositeImplicitAutograd")
        # A key in place of a function: the kernel that C++ has under it.
        kernel = keys.CompositeImplicitAutograd if composite else keys.Autograd
        getattr(getattr(torch.ops.aten, packet), overload or "default").py_impl(keys.AutogradPrivateUse1)(kernel)


_told: set[str] = set()


def _tell_about_breaks() -> None:
    """Name operators that Dynamo could not trace: it leaves them to eager mode without a word."""
    from torch._dynamo.utils import counters

    for reason in counters["graph_break"]:
        found = re.search(r"unsupported operator: (\S+)", reason)
        if found and found[1] not in _told:
            _told.add(found[1])
            warn(
                f"{found[1]} runs eagerly, between two graphs: it has no meta function, which would tell the shape of "
                "its result (torch.library.register_fake adds one)"
            )


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Operators that are brought to others before they are lowered. What has a kernel of its own stays as it is."""
    return {}


def _partition(joint: torch.fx.GraphModule, *arguments: Any, **named: Any) -> Any:
    """Forward and backward of a graph that has both."""
    from functorch.compile import min_cut_rematerialization_partition
    from torch._functorch import config

    merge_equal(joint.graph)
    with config.patch(cse=False):  # it would merge random numbers too
        return min_cut_rematerialization_partition(joint, *arguments, compiler="hardpoint", **named)


def _compile_merged(module: torch.fx.GraphModule, inputs: Sequence[Any], **named: Any) -> Callable[..., Any]:
    merge_equal(module.graph)
    return compile_graph(module, inputs, **named)


def compile_graph(
    module: torch.fx.GraphModule, inputs: Sequence[Any], name: str, options: dict[str, Any]
) -> Callable[..., Any]:
    """A function in place of a graph in ATen's operators; it takes a list, which it empties."""
    update_in_place(module)
    module, taken = take(module)
    compute_by_parts(module)
    lowered = lower(module, name)
    lowered.taken = taken
    runner = lowered.runner
    runner.record = options.get("record", True) and any(_is_ours(value) for value in inputs)
    collect(name, lowered)

    def run(values: list[Any]) -> list[Any]:
        result: list[Any] = runner(values)
        return result

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _is_ours(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == torch._C._get_privateuse1_backend_name()
