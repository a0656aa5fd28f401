"""Sample inputs: picking different ones, moving them to a device as they are, and cases that samples leave out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

#: The dtype in which a reference is computed when two results in the first one differ.
WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass
class Sample:
    """The arguments of one call."""

    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: Makes a result unique that is so only up to a sign, and leaves out what has no gradient.
    process: Callable[[Any], Any] = lambda result: result
    broadcasts_input: bool = False
    label: str = ""

    def transform(self, change: Callable[[Any], Any]) -> Sample:
        """The same call with every tensor, dtype and device changed by a function."""
        return Sample(
            walk(self.input, change),
            walk(self.args, change),
            walk(self.kwargs, change),
            self.process,
            self.broadcasts_input,
            self.label,
        )

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor among the arguments, in order."""
        found: list[torch.Tensor] = []
        self.transform(lambda value: found.append(value) if isinstance(value, torch.Tensor) else value)
        return found

    def call(self, function: Callable[..., Any], **extra: Any) -> Any:
        """Call an operator with these arguments."""
        return function(self.input, *self.args, **self.kwargs, **extra)


def walk(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply a function to the leaves of nested lists, tuples and dictionaries."""
    if isinstance(value, torch.Size):
        return value
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(walk(v, change) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(walk(v, change) for v in value)
    if isinstance(value, dict):
        return {k: walk(v, change) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*(walk(v, change) for v in (value.start, value.stop, value.step)))
    return change(value)


def _moved(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A copy with the same strides and offset, since a layout is part of a sample."""
    if tensor.is_conj():
        return _moved(tensor.conj(), device).conj()
    if tensor.is_neg():
        return _moved(torch._neg_view(tensor), device)._neg_view()
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return storage.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def to_device(sample: Sample, device: str) -> Sample:
    """The sample on a device; a tensor that is used twice stays one tensor."""
    seen: dict[int, torch.Tensor] = {}

    def change(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in seen:
                with torch.no_grad():
                    seen[id(value)] = _moved(value.detach(), device).requires_grad_(value.requires_grad)
            return seen[id(value)]
        if isinstance(value, torch.device) or value == "cpu":
            return device
        return value

    return sample.transform(change)


def _fresh(sample: Sample, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
    def apply(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        made = change(value.detach())
        return made.requires_grad_(value.requires_grad and (made.is_floating_point() or made.is_complex()))

    return sample.transform(apply)


def widened(sample: Sample) -> Sample:
    """The sample in a wider dtype, for a reference; integers in float64 when there is nothing else."""
    known = dict(WIDER)
    if not any(t.is_floating_point() or t.is_complex() for t in sample.tensors()):
        known.update(dict.fromkeys((torch.int64, torch.int32, torch.uint8, torch.bool), torch.float64))
    wide = _fresh(sample, lambda t: t.to(known.get(t.dtype, t.dtype)))
    return wide.transform(lambda v: WIDER.get(v, v) if isinstance(v, torch.dtype) else v)


def without_gradient(sample: Sample) -> Sample:
    """Copies that may be written to."""
    return sample.transform(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v)


def noncontiguous(sample: Sample) -> Sample:
    """Every tensor with gaps between its elements and, from two dimensions on, the first two exchanged in memory."""

    def spread(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() < 2 or tensor.is_conj() or tensor.is_neg():
            return tensor.clone()
        shape = list(tensor.shape)
        if tensor.dim() > 1:
            shape[0], shape[1] = shape[1], shape[0]
        wide = torch.zeros(*shape, 2, dtype=tensor.dtype)[..., 1]
        view = wide.transpose(0, 1) if tensor.dim() > 1 else wide
        return view.copy_(tensor)

    made = _fresh(sample, spread)
    made.label = "non-contiguous"
    return made


def _features(sample: Sample) -> set[Any]:
    found: set[Any] = {("args", len(sample.args)), ("kwargs", tuple(sorted(sample.kwargs)))}
    for position, tensor in enumerate(sample.tensors()):
        found |= {
            ("dim", position, tensor.dim()),
            ("empty", position, tensor.numel() == 0),
            ("dtype", position, tensor.dtype),
            ("contiguous", position, tensor.is_contiguous()),
        }
    for place, value in [*enumerate(sample.args), *sample.kwargs.items()]:
        if not isinstance(value, torch.Tensor):
            found.add(("value", place, type(value)))
            if isinstance(value, (bool, int, str, type(None), torch.dtype, float)):
                found.add(("value", place, repr(value)))
    return found


def pick(samples: list[Sample], limit: int) -> list[Sample]:
    """Up to ``limit`` samples that differ most: each brings what the ones before it lack; equals are spread out."""
    if len(samples) <= limit:
        return samples
    features = [_features(sample) for sample in samples]
    # Every index once, far apart first, so that among equals the choice is spread over the list.
    step = max(1, len(samples) // limit)
    left = [i for start in range(step) for i in range(start, len(samples), step)]
    seen: set[Any] = set()
    chosen: list[int] = []
    while len(chosen) < limit:
        best = max(left, key=lambda i: len(features[i] - seen))
        chosen.append(best)
        left.remove(best)
        seen |= features[best]
    return [samples[i] for i in sorted(chosen)]


#: Entries that convert to integers.
_TO_INTEGERS = ("byte", "char", "short", "int", "long")


def _special_values(dtype: torch.dtype) -> torch.Tensor:
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, info.max, info.min, info.tiny]
        return torch.tensor(values, dtype=torch.float64).to(dtype)
    if dtype is torch.bool:
        return torch.tensor([False, True])
    whole = torch.iinfo(dtype)
    return torch.tensor([0, 1, 2, whole.max, whole.max - 1, whole.min], dtype=dtype)


def edge_cases(entry: Any, dtype: torch.dtype, first: Sample) -> Iterable[Sample]:
    """Extreme values, no elements and no dimensions, for entries that work element by element or reduce."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

    if not isinstance(first.input, torch.Tensor):
        return
    if isinstance(entry, (UnaryUfuncInfo, BinaryUfuncInfo)):
        for label, shape, count in (("empty", (0, 3), 0), ("0-dim", (), 1)):

            def resize(t: torch.Tensor, shape: tuple[int, ...] = shape, count: int = count) -> torch.Tensor:
                return t.flatten()[:count].reshape(shape).clone()

            if all(t.numel() for t in first.tensors()):
                made = _fresh(first, resize)
                made.label = label
                yield made
    if not dtype.is_complex:
        special = _special_values(dtype)
        if entry.name in _TO_INTEGERS and dtype.is_floating_point:
            return  # what a number that does not fit becomes is not defined
        if isinstance(entry, UnaryUfuncInfo):
            kwargs, _ = entry.sample_kwargs("cpu", dtype, special)
            yield Sample(special, (), dict(kwargs), label="extreme values")
        elif isinstance(entry, BinaryUfuncInfo) and dtype.is_floating_point:
            # Integers are left out: their overflow is what each machine makes of it.
            yield Sample(special[:, None].clone(), (special[None, :].clone(),), label="extreme values")
        elif isinstance(entry, ReductionOpInfo) and dtype.is_floating_point:
            for value in (float("nan"), float("inf"), -float("inf")):
                whole = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
                whole[1, 2] = value
                yield Sample(whole.to(dtype), (), dict(first.kwargs), label=f"with {value}")


def from_database(entry: Any, dtype: torch.dtype, gradient: bool, limit: int) -> list[Sample]:
    """Different samples of an entry of PyTorch's database, on the CPU."""
    made = []
    for s in entry.sample_inputs("cpu", dtype, requires_grad=gradient):
        sample = Sample(s.input, tuple(s.args), dict(s.kwargs), s.output_process_fn_grad, s.broadcasts_input)
        if all(t.layout is torch.strided and not t.is_quantized and not t.is_nested for t in sample.tensors()):
            made.append(sample)
    return [sample.transform(_leaf) for sample in pick(made, limit)]


def _leaf(value: Any) -> Any:
    """A view that wants a gradient as a tensor of its own: some samples are slices of a tensor that wants one.

    And the CPU in place of ``cuda``, which samples name where torch has it.
    """
    if value == "cuda" or (isinstance(value, torch.device) and value.type == "cuda"):
        return "cpu"
    if isinstance(value, torch.Tensor) and value.requires_grad and value._is_view():
        return value.detach().clone().requires_grad_()
    return value
