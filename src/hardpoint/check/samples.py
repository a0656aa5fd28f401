"""Sample inputs: selection, transfer to a device with their layout, and additional edge cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from hardpoint.check import expectations

#: Dtype -> dtype of the reference computation.
WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


@dataclass
class Sample:
    """Arguments of one call."""

    input: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    #: Output processing: removes sign ambiguities and outputs without a gradient.
    process: Callable[[Any], Any] = lambda result: result
    broadcasts_input: bool = False
    label: str = ""

    def transform(self, change: Callable[[Any], Any]) -> Sample:
        """Apply a function to every tensor, dtype and device."""
        input, args, kwargs = (walk(value, change) for value in (self.input, self.args, self.kwargs))
        return replace(self, input=input, args=args, kwargs=kwargs)

    def tensors(self) -> list[torch.Tensor]:
        """Tensors among the arguments, in order."""
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
    """Copy to a device with the same strides and offset."""
    if tensor.is_conj():
        return _moved(tensor.conj(), device).conj()
    if tensor.is_neg():
        return _moved(torch._neg_view(tensor), device)._neg_view()
    if tensor.numel() == 0:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
    return storage.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


def to_device(sample: Sample, device: str) -> Sample:
    """Move a sample to a device; repeated tensors stay identical."""
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
    """Convert to a wider dtype for a reference; samples with integers only become float64."""
    known = dict(WIDER)
    if not any(t.is_floating_point() or t.is_complex() for t in sample.tensors()):
        known.update(dict.fromkeys((torch.int64, torch.int32, torch.uint8, torch.bool), torch.float64))
    wide = _fresh(sample, lambda t: t.to(known.get(t.dtype, t.dtype)))
    return wide.transform(lambda v: WIDER.get(v, v) if isinstance(v, torch.dtype) else v)


def without_gradient(sample: Sample) -> Sample:
    """Copy the tensors, detached and writable."""
    return sample.transform(lambda v: v.detach().clone() if isinstance(v, torch.Tensor) else v)


def copied(sample: Sample) -> Sample:
    """Copy the tensors, which require gradients as before."""
    return _fresh(sample, torch.clone)


def noncontiguous(sample: Sample) -> Sample:
    """Give every tensor gaps between elements, and swap the first two dimensions in memory."""

    def spread(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() < 2 or tensor.is_conj() or tensor.is_neg():
            return tensor.clone()
        shape = list(tensor.shape)
        if tensor.dim() > 1:
            shape[0], shape[1] = shape[1], shape[0]
        wide = torch.zeros(*shape, 2, dtype=tensor.dtype)[..., 1]
        view = wide.transpose(0, 1) if tensor.dim() > 1 else wide
        return view.copy_(tensor)

    return _fresh(sample, spread)


def _features(sample: Sample) -> set[Any]:
    found: set[Any] = {("args", len(sample.args)), ("kwargs", tuple(sorted(sample.kwargs)))}
    for position, tensor in enumerate(sample.tensors()):
        found |= {
            ("dim", position, tensor.dim()),
            ("empty", position, tensor.numel() == 0),
            ("dtype", position, tensor.dtype),
            ("contiguous", position, tensor.is_contiguous()),
        }
    for key, value in [*enumerate(sample.args), *sample.kwargs.items()]:
        if not isinstance(value, torch.Tensor):
            found.add(("value", key, type(value)))
            if isinstance(value, (list, tuple)) and value:
                found.add(("elements", key, type(value[0])))
            if isinstance(value, (bool, int, str, type(None), torch.dtype, float)):
                found.add(("value", key, repr(value)))
    return found


def pick(samples: list[Sample], limit: int) -> list[Sample]:
    """Select up to ``limit`` diverse samples: each adds the most new features; ties are spread over the list."""
    if len(samples) <= limit:
        return samples
    features = [_features(sample) for sample in samples]
    # All indices, distant ones first, so that ties are spread over the list.
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
    """Empty, 0-dim and extreme inputs for elementwise and reduction entries."""
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo

    if not isinstance(first.input, torch.Tensor):
        return
    if isinstance(entry, (UnaryUfuncInfo, BinaryUfuncInfo)) and all(t.numel() for t in first.tensors()):
        for label, shape, count in (("empty", (0, 3), 0), ("0-dim", (), 1)):

            def resize(t: torch.Tensor, shape: tuple[int, ...] = shape, count: int = count) -> torch.Tensor:
                return t.flatten()[:count].reshape(shape).clone()

            yield replace(_fresh(first, resize), label=label)
    converts = entry.name in expectations.TO_INTEGERS and dtype.is_floating_point  # undefined for values out of range
    if dtype.is_complex or converts:
        return
    special = _special_values(dtype)
    if isinstance(entry, UnaryUfuncInfo):
        kwargs, _ = entry.sample_kwargs("cpu", dtype, special)
        yield Sample(special, (), dict(kwargs), label="extreme values")
    elif isinstance(entry, BinaryUfuncInfo) and dtype.is_floating_point:
        # Not for integers: overflow is machine-dependent.
        yield Sample(special[:, None].clone(), (special[None, :].clone(),), label="extreme values")
    elif isinstance(entry, ReductionOpInfo) and dtype.is_floating_point:
        for value in (float("nan"), float("inf"), -float("inf")):
            whole = torch.linspace(-2, 2, 12, dtype=torch.float64).reshape(3, 4)
            whole[1, 2] = value
            yield Sample(whole.to(dtype), (), dict(first.kwargs), label=f"with {value}")


def from_database(entry: Any, dtype: torch.dtype, gradient: bool, limit: int) -> list[Sample]:
    """Diverse samples of a database entry, on the CPU."""
    made = []
    for s in entry.sample_inputs("cpu", dtype, requires_grad=gradient):
        sample = Sample(s.input, tuple(s.args), dict(s.kwargs), s.output_process_fn_grad, s.broadcasts_input)
        if all(t.layout is torch.strided and not t.is_quantized and not t.is_nested for t in sample.tensors()):
            made.append(sample)
    chosen = pick(made, limit)
    # Variants need a sample with strides and sizes.
    best = max(made, key=richness, default=None)
    if best is not None and chosen and max(map(richness, chosen)) < richness(best):
        chosen = [*chosen[:-1], best]
    return [sample.transform(_leaf) for sample in chosen]


def richness(sample: Sample) -> tuple[bool, int, int, int, int]:
    """Sort key of samples for variants: nonempty ones first, since an empty one always passes, then many elements."""
    tensors = sample.tensors()
    dimensioned = sum(t.dim() > 0 for t in tensors)
    several = sum(t.numel() > 1 for t in tensors)
    nonempty = bool(tensors) and all(t.numel() for t in tensors)
    rank = min(max((t.dim() for t in tensors), default=0), 3)
    return nonempty, min(dimensioned, 1), -sum(t.dim() == 0 for t in tensors), several, rank


def _leaf(value: Any) -> Any:
    """Turn a view that requires grad into a leaf: some samples are slices of such a tensor.

    Also replaces ``cuda``, which samples use where torch supports it, by the CPU.
    """
    if value == "cuda" or (isinstance(value, torch.device) and value.type == "cuda"):
        return "cpu"
    if isinstance(value, torch.Tensor) and value.requires_grad and value._is_view():
        return value.detach().clone().requires_grad_()
    return value
