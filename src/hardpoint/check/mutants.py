"""Vendor kernels with one planted bug each, generated from lists of operators and of bugs, for :mod:`mutation`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from hardpoint import _dlpack
from hardpoint.check.raw_memory import tensor_at
from hardpoint.kernels import Kernel

#: Computes the right result on the CPU from CPU inputs and attributes.
Reference = Callable[..., torch.Tensor]
#: Writes a result with a bug: the output on the device, the right values, the inputs on the device, the raw output.
Bug = Callable[[torch.Tensor, torch.Tensor, list[Any], Any], None]


@dataclass(frozen=True)
class Mutant:
    """A kernel with a bug."""

    operator: str
    bug: str
    #: Entry of PyTorch's database that reaches the kernel.
    entry: str
    reference: Reference
    write: Bug
    strided: bool = False
    #: Changes the inputs before the reference is computed.
    read: Callable[[list[Any]], list[Any]] | None = None
    default_stream: bool = False
    mode: str = "ops"

    @property
    def name(self) -> str:
        """Name in the table: ``exp: lost tail``."""
        return f"{self.operator}: {self.bug}"

    def plant(self, device: str) -> Kernel[..., None]:
        """Serve the operator by the broken kernel, until the result is removed."""
        _stale.clear()

        def kernel(out: Any, *arguments: Any) -> None:
            if self.default_stream:
                with getattr(torch, device).default_stream():
                    self._run(out, arguments)
            else:
                self._run(out, arguments)

        return Kernel(self.operator, kernel, strided=self.strided).register(device)

    def _run(self, out: Any, arguments: tuple[Any, ...]) -> None:
        inputs = [torch.from_dlpack(a) if hasattr(a, "data_ptr") else a for a in arguments]
        given = self.read(inputs) if self.read is not None else inputs
        host = [a.cpu() if isinstance(a, torch.Tensor) else a for a in given]
        target = torch.from_dlpack(out)
        right = self.reference(*host).to(target.dtype).reshape(target.shape)
        self.write(target, right, inputs, out)


# ---- Bugs in the written values


def _first(count: Callable[[int], int]) -> Bug:
    def write(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
        size = min(count(right.numel()), right.numel())
        target.view(-1)[:size].copy_(right.reshape(-1)[:size])

    return write


def _changed(change: Callable[[torch.Tensor, list[Any]], torch.Tensor]) -> Bug:
    def write(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
        target.copy_(change(right, inputs))

    return write


def _skips_first(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
    target.view(-1)[1:].copy_(right.reshape(-1)[1:])


def _misaligned_wrong(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    bad = any(isinstance(t, torch.Tensor) and t.numel() > 1 and t.data_ptr() % 16 for t in inputs)
    return right.roll(1) if bad else right


def _negative_wrong(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    if right.dtype is not torch.bfloat16 or inputs[0].shape != right.shape:
        return right
    return torch.where(inputs[0].cpu() < 0, right * 1.3, right)


def _no_nan(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    return torch.where(right.isnan(), 0, right) if right.is_floating_point() else right


def _clipped(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    return right.clamp(-1e30, 1e30) if right.dtype in (torch.float32, torch.float64) else right


def _low_precision(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    return right.to(torch.bfloat16).to(right.dtype) if right.dtype is torch.float32 else right


def _single_precision(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    return right.float().double() if right.dtype is torch.float64 else right


_calls = itertools.count()


def _race(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    """Differs from call to call by less than any tolerance."""
    if not right.is_floating_point() or right.numel() < 2:
        return right
    changed = right.clone()
    position = next(_calls) % right.numel()
    changed.view(-1)[position] = torch.nextafter(changed.view(-1)[position], changed.new_tensor(float("inf")))
    return changed


_stale: dict[tuple[Any, ...], torch.Tensor] = {}


def _stale_result(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    """Returns the result of the first call with these sizes."""
    key = (right.shape, right.dtype)
    _stale.setdefault(key, right.clone())
    return _stale[key]


# ---- Bugs that write to other memory


def _fills_input(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
    target.copy_(right)
    inputs[0].fill_(7)


def _touches_large_input(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
    target.copy_(right)
    if inputs[0].numel() > 1000 and inputs[0].is_contiguous():
        inputs[0].view(-1)[-1:].zero_()


def _clears_first(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
    target.zero_()
    target.copy_(torch.where(inputs[0].cpu() == 0, right * 0, right) if inputs[0].shape == right.shape else right)


def _writes_outside(first: Callable[[int], int], size: int) -> Bug:
    def write(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
        target.copy_(right)
        if target.numel():
            end = target.numel() * target.element_size()
            outside = out.data_ptr() + first(end)
            tensor_at(outside, [size], [1], code=_dlpack.CODES["uint"], bits=8, device=target.device.index).zero_()

    return write


def _wrong_in_five_dimensions(right: torch.Tensor, inputs: list[Any]) -> torch.Tensor:
    return right.flip(0) if right.dim() > 4 else right


# ---- Bugs in reads


def _ignores_strides(inputs: list[Any]) -> list[Any]:
    return [
        torch.as_strided(t, t.shape, torch.empty(t.shape, device="meta").stride())
        if isinstance(t, torch.Tensor) and t.dim() and 0 not in t.stride() and not t.is_contiguous()
        else t
        for t in inputs
    ]


def _copied(target: torch.Tensor, right: torch.Tensor, inputs: list[Any], out: Any) -> None:
    target.copy_(right)


#: Bugs of any elementwise kernel.
POINTWISE_BUGS: dict[str, Bug] = {
    "off by one at the end": _first(lambda n: n - 1),
    "skips the first element": _skips_first,
    "lost tail of a vector": _first(lambda n: n // 8 * 8),
    "stops after 4096 elements": _first(lambda n: 4096),
    "stops after 65536 elements": _first(lambda n: 65536),
    "wrong for misaligned memory": _changed(_misaligned_wrong),
    "30% wrong for negative bfloat16": _changed(_negative_wrong),
    "NaN becomes 0": _changed(_no_nan),
    "infinity becomes 1e30": _changed(_clipped),
    "float32 computed in bfloat16": _changed(_low_precision),
    "float64 computed in float32": _changed(_single_precision),
    "race that moves one bit": _changed(_race),
    "stale result": _changed(_stale_result),
    "fills its input": _fills_input,
    "changes the end of a large input": _touches_large_input,
    "writes one element past the end": _writes_outside(lambda end: end, 4),
    "writes a tile past the end": _writes_outside(lambda end: end, 1024),
    "writes before the start": _writes_outside(lambda end: -4, 4),
}


def _gelu(x: torch.Tensor, variant: object = 0) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh" if variant in (1, "tanh") else "none")


#: Operators -> reference. Bugs are assigned to them in turn.
UNARY: dict[str, Reference] = {
    **{name: getattr(torch, name) for name in ("tanh", "exp", "sin", "erf", "sigmoid", "atan", "expm1", "neg")},
    "gelu": _gelu,
}
_ENTRIES = {"gelu": "nn.functional.gelu"}
#: Bugs that only some operators can show: tanh returns no infinity, and a sigmoid is never negative.
_ONLY = {"infinity becomes 1e30": ("exp", "neg", "expm1"), "30% wrong for negative bfloat16": ("gelu", "tanh", "erf")}


def _add(x: torch.Tensor, y: Any, alpha: Any) -> torch.Tensor:
    return torch.add(x, y, alpha=alpha)


def _long_sum(limit: int) -> Reference:
    def reference(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
        wanted = [int(d) for d in dims] or list(range(x.dim()))
        for dim in wanted:
            x = x.narrow(dim, 0, min(limit, x.shape[dim])) if x.dim() else x
        return torch.sum(x, wanted, keepdim=bool(keepdim)) if x.dim() else x.clone()

    return reference


def _row_softmax(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x.float() if x.dtype in (torch.float16, torch.bfloat16) else x, int(dim))


def _all_dims(x: torch.Tensor, dims: Any) -> list[int]:
    return [int(d) % x.dim() for d in dims if x.dim()] or list(range(x.dim()))


def _sum_in_int32(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    right = _long_sum(1 << 40)(x, dims, keepdim)
    return right.to(torch.int32).to(right.dtype) if right.dtype is torch.int64 else right


def _naive_variance(x: torch.Tensor, dims: Any, correction: Any, keepdim: Any) -> torch.Tensor:
    wanted = _all_dims(x, dims)
    count = math.prod(x.shape[d] for d in wanted)
    mean = x.mean(wanted, keepdim=bool(keepdim))
    return ((x * x).mean(wanted, keepdim=bool(keepdim)) - mean * mean) * count / max(count - correction, 0)


def _largest_float(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    right = torch.amin(x, [int(d) for d in dims], keepdim=bool(keepdim))
    return right.clamp(max=torch.finfo(x.dtype).max) if x.is_floating_point() else right


def _first_eight(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    wanted = _all_dims(x, dims)
    for dim in wanted:
        x = x.narrow(dim, 0, min(8, x.shape[dim]))
    x = x != 0
    for dim in sorted(wanted, reverse=True):
        x = x.any(dim, keepdim=bool(keepdim))
    return x


def _scan_in_pieces(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.cat([part.cumsum(int(dim)) for part in x.split(4096, int(dim))], int(dim)) if x.dim() else x


def _skips_zeros(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if not a.is_floating_point():
        return a @ b
    nan = (a.isnan().to(a.dtype) @ (b != 0).to(a.dtype) + (a != 0).to(a.dtype) @ b.isnan().to(a.dtype)) > 0
    return torch.where(nan, math.nan, torch.nan_to_num(a) @ torch.nan_to_num(b))


def _loses_a_column(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    right = a @ b
    if a.dim() == 2 and a.shape[0] == 1:
        right[..., -1:] = 0
    return right


def _forgets_to_rescale(x: torch.Tensor, dim: int) -> torch.Tensor:
    dim = int(dim)
    if not x.dim() or x.shape[dim] <= 1024:
        return torch.softmax(x, dim)
    first, rest = x.split((1024, x.shape[dim] - 1024), dim)
    parts = (first - first.amax(dim, keepdim=True)).exp(), (rest - x.amax(dim, keepdim=True)).exp()
    exponentials = torch.cat(parts, dim)
    return exponentials / exponentials.sum(dim, keepdim=True)


def _select(condition: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    factor = condition.to(torch.result_type(x, y))
    return factor * x + (1 - factor) * y if factor.is_floating_point() else torch.where(condition, x, y)


def _eight_tensors(*arguments: Any) -> torch.Tensor:
    *tensors, dim = arguments
    kept = [t if i < 8 else torch.zeros_like(t) for i, t in enumerate(tensors)]
    return torch.cat(kept, int(dim))


def _square(x: torch.Tensor, y: Any) -> torch.Tensor:
    same = isinstance(y, torch.Tensor) and x.shape == y.shape and x.dtype is torch.float32 and torch.equal(x, y)
    return (x.bfloat16() * y.bfloat16()).float() if same else torch.mul(x, y)


def _found_blind() -> Iterator[Mutant]:
    """Bugs planted by someone who had not read the cases, which did not find them; cases for their classes followed."""
    yield Mutant("where", "adds what is not selected times 0", "where", _select, _copied)
    yield Mutant("mul", "squares in 16 bits", "mul", _square, _copied)
    yield Mutant("sum", "32 bits for integers", "sum", _sum_in_int32, _copied)
    yield Mutant("amin", "starts from the largest number, not infinity", "amin", _largest_float, _copied)
    yield Mutant("var", "subtracts the square of the mean", "var", _naive_variance, _copied)
    yield Mutant("any", "reads 8 elements of a row", "any", _first_eight, _copied)
    yield Mutant("cumsum", "loses the carry after 4096 elements", "cumsum", _scan_in_pieces, _copied)
    yield Mutant("matmul", "skips zeros", "mm", _skips_zeros, _copied)
    yield Mutant("matmul", "a single row loses its last column", "mm", _loses_a_column, _copied)
    yield Mutant(
        "log_softmax", "logarithm of softmax", "log_softmax", lambda x, dim: x.softmax(int(dim)).log(), _copied
    )
    yield Mutant(
        "softmax", "0 for rows of -inf", "softmax", lambda x, dim: x.softmax(int(dim)).nan_to_num(nan=0), _copied
    )
    yield Mutant("softmax", "forgets to rescale after 1024 elements", "softmax", _forgets_to_rescale, _copied)
    yield Mutant("cat", "drops the ninth tensor", "cat", _eight_tensors, _copied)


def _others() -> Iterator[Mutant]:
    yield Mutant("add", "ignores alpha", "add", lambda x, y, alpha: torch.add(x, y), _copied)
    yield Mutant(
        "sub", "swaps its inputs", "sub", lambda x, y, alpha: torch.sub(y, x) if alpha == 1 else x - y * alpha, _copied
    )
    for operator, reference in (("mul", torch.mul), ("add", _add)):
        yield Mutant(operator, "ignores strides", operator, reference, _copied, strided=True, read=_ignores_strides)
        yield Mutant(operator, "fills its input", operator, reference, _fills_input)
        yield Mutant(operator, "wrong stream", operator, reference, _copied, default_stream=True)
        yield Mutant(operator, "stops after 4096 elements", operator, reference, _first(lambda n: 4096))
        yield Mutant(
            operator, "writes one element past the end", operator, reference, _writes_outside(lambda end: end, 4)
        )
    yield Mutant("erf", "wrong for five dimensions", "erf", torch.erf, _changed(_wrong_in_five_dimensions))
    for operator in ("exp", "sin"):
        yield Mutant(operator, "wrong stream", operator, UNARY[operator], _copied, default_stream=True)
        yield Mutant(
            operator, "ignores strides", operator, UNARY[operator], _copied, strided=True, read=_ignores_strides
        )
        yield Mutant(operator, "clears its output before it reads", operator, UNARY[operator], _clears_first)
    matrices: dict[str, Reference] = {
        "drops k > 64": lambda a, b: a[..., :64] @ b[..., :64, :],
        "drops the last k": lambda a, b: a[..., :-1] @ b[..., :-1, :] if a.shape[-1] > 1 else a @ b,
        "sums in 16 bits": lambda a, b: (a.bfloat16() @ b.bfloat16()).to(a.dtype) if a.is_floating_point() else a @ b,
        "transposes square matrices": lambda a, b: a @ (b.mT if b.shape[-1] == b.shape[-2] else b),
    }
    for bug, reference in matrices.items():
        yield Mutant("matmul", bug, "mm", reference, _copied)
    yield Mutant("matmul", "lost tail of a tile", "mm", torch.matmul, _first(lambda n: n // 16 * 16))
    yield Mutant("matmul", "fills its input", "mm", torch.matmul, _fills_input)
    yield Mutant(
        "matmul",
        "uses the first batch for all",
        "bmm",
        lambda a, b: (a[:1] @ b[:1]).expand(a.shape[0], -1, -1) if a.dim() == 3 else a @ b,
        _copied,
    )
    yield Mutant("matmul", "writes a tile past the end", "mm", torch.matmul, _writes_outside(lambda end: end, 256))
    for limit in (1024, 4096):
        yield Mutant("sum", f"drops what follows {limit} elements", "sum", _long_sum(limit), _copied)
    yield Mutant("sum", "fills its input", "sum", _long_sum(1 << 40), _fills_input)
    yield Mutant("softmax", "30% too small", "softmax", lambda x, dim: _row_softmax(x, dim) * 0.7, _copied)
    yield Mutant("softmax", "lost tail of a vector", "softmax", _row_softmax, _first(lambda n: n // 8 * 8))
    yield Mutant(
        "softmax",
        "overflows without the maximum",
        "softmax",
        lambda x, dim: x.exp() / x.exp().sum(int(dim), keepdim=True),
        _copied,
    )


def kernel_mutants() -> list[Mutant]:
    """All broken kernels: each bug on two operators in turn, and those of single operators."""
    found = []
    turn = itertools.cycle(UNARY)
    for bug, write in POINTWISE_BUGS.items():
        operators = list(_ONLY[bug])[:2] if bug in _ONLY else [next(turn), next(turn)]
        for operator in operators:
            entry = _ENTRIES.get(operator, operator)
            found.append(Mutant(operator, bug, entry, UNARY[operator], write))
    return [*found, *_others(), *_found_blind()]
