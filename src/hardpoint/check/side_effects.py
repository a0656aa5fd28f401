"""Side effects of a call: inputs that it must not write, and results that must not depend on the run."""

from __future__ import annotations

from typing import Any

import torch

from hardpoint.check import compare, numerics
from hardpoint.check.samples import Sample

#: Fills memory before a call, so that a result which the kernel does not write is wrong.
POISON = 0x5B


class Inputs:
    """The bits of a call's arguments before the call."""

    def __init__(self, sample: Sample) -> None:
        self._before = [_bytes(t) for t in sample.tensors()]

    def problem(self, right: Sample, ours: Sample, device: str) -> str:
        """Describe an argument that the device wrote and the CPU did not, or wrote differently; empty if none."""
        pairs = zip(right.tensors(), ours.tensors(), self._before, strict=True)
        for position, (expected, actual, before) in enumerate(pairs):
            if actual.device.type == "cpu":
                continue
            if not torch.equal(_bytes(expected), before):
                if difference := _difference(actual.detach(), expected.detach(), device):
                    return f"argument {position}, which the operator writes: {difference}"
                continue
            after = _bytes(actual)
            if after.shape != before.shape:
                return f"argument {position} was resized: {before.numel()} bytes before, {after.numel()} after"
            if changed := int((after != before).sum()):
                where = int((after != before).nonzero()[0]) // actual.element_size()
                return f"the kernel overwrote its input: argument {position}, {changed} bytes from element {where} on"
        return ""


def _difference(actual: torch.Tensor, expected: torch.Tensor, device: str) -> str:
    """Compare a written argument, such as a running mean, with an error relative to its largest element."""
    rtol, _ = numerics.TOLERANCES.get(str(expected.dtype).removeprefix("torch."), (0.0, 0.0))
    largest = float(expected.abs().max()) if rtol and expected.numel() else 0.0
    return compare.values(
        actual, expected, device, tolerance=(rtol, rtol * largest) if largest < float("inf") else None
    )


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The whole storage, on the CPU."""
    if tensor.numel() == 0:
        return torch.empty(0, dtype=torch.uint8)
    storage = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())
    return storage.cpu() if storage.device.type != "cpu" else storage.clone()


def poison(results: Any, device: str) -> None:
    """Fill the memory that the allocator will use for such results, so that missing writes show."""
    for leaf in compare.leaves(results):
        if isinstance(leaf, torch.Tensor) and (size := leaf.numel() * leaf.element_size()):
            torch.full((size,), POISON, dtype=torch.uint8, device=device)


def same_bits(first: Any, second: Any) -> bool:
    """Whether two results are equal, NaN included."""
    ours, others = compare.leaves(first), compare.leaves(second)
    if len(ours) != len(others):
        return False
    for a, b in zip(ours, others, strict=True):
        if isinstance(a, torch.Tensor) != isinstance(b, torch.Tensor):
            return False
        if not isinstance(a, torch.Tensor):
            if a != b and (a == a or b == b):
                return False
            continue
        a, b = (compare.plain(t).contiguous() for t in (a, b))
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.numel() and not torch.equal(a.flatten().view(torch.uint8), b.flatten().view(torch.uint8)):
            return False
    return True


class DelayedInputs:
    """A side stream on which a call's inputs arrive late, so that a kernel on another stream reads them too early."""

    #: Size of the copies queued before the inputs. Copies rather than kernels, which might be the broken part.
    COPIES, BYTES = 16, 16 << 20

    def __init__(self, device: str) -> None:
        self._device = device
        self.stream: Any = getattr(torch, device).Stream()

    def call(self, sample: Sample, function: Any) -> Any:
        """Run the call on the side stream, and return its results."""
        fresh: dict[int, torch.Tensor] = {}

        def empty(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
                return value
            if id(value) not in fresh:
                fresh[id(value)] = torch.zeros_like(value.detach())
            return fresh[id(value)]

        late = sample.transform(empty)
        originals = {id(t): t for t in sample.tensors()}
        torch.accelerator.synchronize()
        with self.stream:
            source, target = (torch.empty(self.BYTES, dtype=torch.uint8, device=self._device) for _ in range(2))
            for _ in range(self.COPIES):
                target.copy_(source)
            for key, tensor in fresh.items():
                tensor.copy_(originals[key].detach())
            result = late.call(function)
        self.stream.synchronize()
        return result
