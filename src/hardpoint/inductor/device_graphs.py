"""``torch.compile(mode="reduce-overhead")``: compiled functions run as device graphs.

Inductor's own implementation is for CUDA graphs. Here each compiled function is captured on its second call and then
replayed. Inputs keep their addresses or are copied to buffers. Results are never overwritten while the program holds
them: another graph is captured, or the function runs without one.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hardpoint.torch import _adapter

#: Maximum number of graphs per compiled function. Several are needed if the program holds results or moves parameters.
MAX_GRAPHS = 8


def install(name: str) -> None:
    """Wrap the functions that Inductor compiles for the device if the mode asks for graphs."""
    from torch._inductor import config
    from torch._inductor.output_code import CompiledFxGraph
    from torch._inductor.utils import BoxedBool

    original = CompiledFxGraph.post_compile

    @functools.wraps(original)
    def post_compile(self: Any, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        # Also called for functions from a cache.
        wanted = bool(config.triton.cudagraphs) and name in self.device_types
        if wanted:
            graph_kwargs = {**graph_kwargs, "cudagraphs": BoxedBool(False)}
        original(self, example_inputs, constants, graph_kwargs)
        if wanted and self.current_callable is not None:
            static = {*(self.fx_kwargs.get("static_input_idxs") or ()), *self.mutated_input_idxs}
            self.current_callable = GraphedFunction(name, self.current_callable, sorted(static))

    CompiledFxGraph.post_compile = post_compile


class GraphedFunction:
    """A compiled function and its captured graphs."""

    def __init__(self, device: str, function: Callable[[list[Any]], Any], static: Sequence[int]) -> None:
        self.device, self.function, self.static = device, function, tuple(static)
        self.adapter: Any = _adapter.load()
        self.calls: list[Any] = []
        self.warm: set[tuple[Any, ...]] = set()
        self.skipped = ""

    def __call__(self, inputs: list[Any]) -> Any:
        """Replay, capture or run the function. Empties the list of inputs, as the function does."""
        if self.skipped or self.adapter.is_current_stream_capturing():
            return self.function(inputs)
        if self.calls:
            results = self.adapter.run_graphed_call(self.calls, inputs)
            if results is not None:
                return results
        if not self._is_warm(inputs) or self.skipped:
            return self.function(inputs)
        return self._capture(inputs)

    def _is_warm(self, inputs: list[Any]) -> bool:
        """Whether the function has already run with these sizes: the first run compiles kernels and fills caches."""
        sizes = tuple(value for value in inputs if isinstance(value, int))
        if sizes in self.warm:
            return True
        self.warm.add(sizes)
        if not all(isinstance(value, (torch.Tensor, int)) for value in inputs):
            self._skip("it takes arguments other than tensors and integers")
        elif any(isinstance(value, torch.Tensor) and value.device.type != self.device for value in inputs):
            self._skip("it takes tensors of other devices")
        return False

    def _capture(self, inputs: list[Any]) -> Any:
        if len(self.calls) == MAX_GRAPHS:
            # Usually the program holds results. Graphs whose inputs have moved for good would only waste memory.
            return self.function(inputs)
        module = getattr(torch, self.device)
        static = self.static
        fixed = [
            i
            for i, value in enumerate(inputs)
            if isinstance(value, torch.Tensor) and (i in static or self.adapter.is_graphed_result(value))
        ]
        given = [
            torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device=value.device)
            if isinstance(value, torch.Tensor) and i not in fixed
            else value
            for i, value in enumerate(inputs)
        ]
        graph = module.Graph()
        try:
            with torch.no_grad(), module.graph(graph, pool=_pool(self.device, module.current_device())):
                outputs = self.function(list(given))
        except RuntimeError as error:
            self._skip(str(error))
            return self.function(inputs)
        results = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
        if not all(value is None or isinstance(value, (torch.Tensor, int, float)) for value in results):
            self._skip("it returns values other than tensors and numbers")
            return self.function(inputs)
        self.calls.append(self.adapter.GraphedCall(graph._graph, given, fixed, results))
        results.clear()
        del outputs, given
        replayed = self.adapter.run_graphed_call(self.calls[-1:], inputs)
        return replayed if replayed is not None else self.function(inputs)

    def _skip(self, reason: str) -> None:
        self.skipped = reason
        _say(self.device, reason)


@functools.cache
def _pool(device: str, index: int) -> tuple[int, int]:
    """One memory pool for all functions of a device: they run one after another, and each keeps its own results."""
    pool: tuple[int, int] = getattr(torch, device).graph_pool_handle()
    return pool


@functools.cache
def _say(name: str, reason: str) -> None:
    print(f'[hardpoint] mode="reduce-overhead" runs a function without a graph on {name}: {reason}', file=sys.stderr)
