"""``torch.<device>.make_graphed_callables``: forward and backward of a function as two device graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

Pool = tuple[int, int]


def make_graphed(
    module: Any, callables: Any, sample_args: Any, num_warmup_iters: int, allow_unused_input: bool, pool: Pool | None
) -> Any:
    """Capture all forwards in order, then all backwards in reverse order: they share one memory pool."""
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    if len(functions) != len(samples):
        raise ValueError(f"{len(functions)} callables, but {len(samples)} tuples of sample arguments")
    pool = module.graph_pool_handle() if pool is None else pool
    parts = [_Captured(module, f, args, allow_unused_input) for f, args in zip(functions, samples, strict=True)]
    for part in parts:
        part.group = parts
    stream = module.Stream()
    stream.wait_stream(module.current_stream())
    with module.stream(stream):
        for part in parts:
            for _ in range(num_warmup_iters):
                part.warm_up()
    module.current_stream().wait_stream(stream)
    for part in parts:
        part.capture_forward(pool)
    for part in reversed(parts):
        part.capture_backward(pool)
    graphed = tuple(part.callable() for part in parts)
    return graphed if several else graphed[0]


class _Captured:
    def __init__(self, module: Any, function: Any, sample: tuple[Any, ...], allow_unused: bool) -> None:
        self.module, self.function, self.allow_unused = module, function, allow_unused
        if isinstance(function, torch.nn.Module):
            if any(buffer.requires_grad for buffer in function.buffers()):
                raise RuntimeError("make_graphed_callables: buffers of a module must not require gradients")
            for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
                if getattr(function, hooks):
                    raise RuntimeError("make_graphed_callables: register hooks after the module is graphed, not before")
        inputs, self.inputs_spec = pytree.tree_flatten(sample)
        if not all(isinstance(value, torch.Tensor) for value in inputs):
            raise TypeError("make_graphed_callables: sample arguments must be tensors, or containers of tensors")
        self.sample = sample
        self.inputs: tuple[torch.Tensor, ...] = tuple(inputs)
        is_module = isinstance(function, torch.nn.Module)
        self.parameters: tuple[torch.Tensor, ...] = tuple(function.parameters()) if is_module else ()
        self.with_gradient = [t for t in (*self.inputs, *self.parameters) if t.requires_grad]
        self.forward, self.backward = module.Graph(), module.Graph()
        self.outputs: tuple[torch.Tensor, ...] = ()
        self.output_gradients: list[torch.Tensor | None] = []
        self.gradients: list[torch.Tensor | None] = []
        self.outputs_spec: Any = None
        self.group: list[_Captured] = [self]  # callables that share a memory pool

    def _differentiable(self, outputs: Any) -> list[torch.Tensor]:
        return [output for output in outputs if output.requires_grad]

    def _gradients(self, outputs: Any, gradients: Any) -> tuple[torch.Tensor | None, ...]:
        roots = self._differentiable(outputs)
        if not roots or not self.with_gradient:
            return ()
        given = [gradient for gradient in gradients if gradient is not None]
        found: tuple[torch.Tensor | None, ...] = torch.autograd.grad(
            roots, self.with_gradient, given, only_inputs=True, allow_unused=self.allow_unused
        )
        return found

    def warm_up(self) -> None:
        outputs = pytree.tree_leaves(self.function(*self.sample))
        self._gradients(outputs, [torch.empty_like(output) for output in self._differentiable(outputs)])

    def capture_forward(self, pool: Pool) -> None:
        with self.module.graph(self.forward, pool=pool):
            outputs = self.function(*self.sample)
        flat, self.outputs_spec = pytree.tree_flatten(outputs)
        self.outputs = tuple(flat)

    def capture_backward(self, pool: Pool) -> None:
        self.output_gradients = [torch.empty_like(o) if o.requires_grad else None for o in self.outputs]
        found: Iterator[torch.Tensor | None] = iter([None] * len(self.with_gradient))
        if self._differentiable(self.outputs) and self.with_gradient:
            with self.module.graph(self.backward, pool=pool):
                found = iter(self._gradients(self.outputs, self.output_gradients))
        self.gradients = [next(found) if t.requires_grad else None for t in (*self.inputs, *self.parameters)]
        self.outputs = tuple(output.detach() for output in self.outputs)  # drops the autograd graph of the capture

    def save_accumulated(self) -> None:
        """Copy the gradients in ``parameter.grad``: a forward pass may use the same memory for intermediate values."""
        gradients = self.gradients[len(self.inputs) :]
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            held = parameter.grad
            if gradient is not None and held is not None and held.data_ptr() == gradient.data_ptr():
                parameter.grad = held.clone()

    def callable(self) -> Any:
        apply = self._function()
        parameters = self.parameters

        def call(*arguments: Any) -> Any:
            flat, spec = pytree.tree_flatten(arguments)
            if spec != self.inputs_spec:
                raise TypeError("a graphed callable must be called with arguments like its sample arguments")
            return pytree.tree_unflatten(list(apply(*flat, *parameters)), self.outputs_spec)

        if not isinstance(self.function, torch.nn.Module):
            return call
        original, training = self.function.forward, self.function.training

        def forward(*arguments: Any) -> Any:
            # The graph has the mode (training or evaluation) of the capture.
            return call(*arguments) if self.function.training == training else original(*arguments)

        self.function.forward = forward
        return self.function

    def _function(self) -> Callable[..., Any]:
        captured = self

        class Graphed(torch.autograd.Function):  # type: ignore[misc]
            @staticmethod
            def forward(ctx: Any, *tensors: torch.Tensor) -> Any:
                for static, given in zip(captured.inputs, tensors, strict=False):
                    if static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                for part in captured.group:
                    part.save_accumulated()
                captured.forward.replay()
                return tuple(output.detach() for output in captured.outputs)

            @staticmethod
            @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]
            def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
                for static, given in zip(captured.output_gradients, gradients, strict=True):
                    if static is not None and given is not None and static.data_ptr() != given.data_ptr():
                        static.copy_(given)
                captured.backward.replay()
                return tuple(None if gradient is None else gradient.detach() for gradient in captured.gradients)

        apply: Callable[..., Any] = Graphed.apply
        return apply
