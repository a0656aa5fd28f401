"""Vendor kernels that get an argument, a size or a kind of value wrong, for :mod:`mutation`.

Planted by someone who had written the list of bugs before reading the cases; :mod:`mutants` has bugs of any kernel.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from hardpoint.kernels import Kernel

aten: Any = torch.ops.aten
_MODES = (None, "trunc", "floor")


@dataclass(frozen=True)
class KernelMutant:
    """A kernel that computes a wrong result on the CPU, and copies it to the device."""

    operator: str
    bug: str
    entry: str
    function: Callable[..., Any]
    outputs: int = 1
    mode: str = "ops"

    @property
    def name(self) -> str:
        """Name in the table."""
        return f"{self.operator}: {self.bug}"

    def plant(self, device: str) -> AbstractContextManager[Any]:
        """Serve the operator by the broken kernel, until the result is removed."""

        def kernel(*arguments: Any) -> None:
            outputs = [torch.from_dlpack(o) for o in arguments[: self.outputs]]
            inputs = [torch.from_dlpack(a) if hasattr(a, "data_ptr") else a for a in arguments[self.outputs :]]
            found = self.function(*(a.cpu() if isinstance(a, torch.Tensor) else a for a in inputs))
            for out, value in zip(outputs, found if isinstance(found, tuple) else (found,), strict=True):
                out.copy_(value.to(out.dtype).reshape(out.shape))

        return Kernel(self.operator, kernel).register(device)


@dataclass(frozen=True)
class OverloadMutant(KernelMutant):
    """The same for an ATen overload, whose arguments it gets, and may write."""

    def plant(self, device: str) -> AbstractContextManager[Any]:
        """Serve the overload by the broken function inside the context."""
        return self._planted(device)

    @contextmanager
    def _planted(self, device: str) -> Iterator[None]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

            def to_host(value: Any) -> Any:
                if isinstance(value, (list, tuple)):
                    return type(value)(map(to_host, value))
                if not isinstance(value, torch.Tensor) or value.device.type == "cpu":
                    return None if isinstance(value, torch.Generator) else value
                pairs.append((value, value.detach().cpu()))
                return pairs[-1][1]

            def to_device(value: Any) -> Any:
                if isinstance(value, (list, tuple)):
                    return type(value)(map(to_device, value))
                if not isinstance(value, torch.Tensor):
                    return value
                return next((ours for ours, host in pairs if host is value), value.to(device))

            given = to_host(arguments), {k: to_host(v) for k, v in keywords.items() if k != "generator"}
            before = [host.clone() for _, host in pairs]
            result = self.function(*given[0], **given[1])
            for (ours, host), old in zip(pairs, before, strict=True):
                if not torch.equal(host, old):
                    ours.copy_(host)
            return to_device(result)

        library = torch.library.Library("aten", "IMPL")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that another kernel is replaced
            library.impl(self.operator, call, "PrivateUse1")
        try:
            yield
        finally:
            library._destroy()


def _whole(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype is torch.int64


def _dims(x: torch.Tensor, dims: Any) -> list[int]:
    return [int(d) % max(x.dim(), 1) for d in dims] or list(range(x.dim()))


def _each(name: str, x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    for dim in sorted(_dims(x, dims), reverse=True):
        x = getattr(x, name)(dim, keepdim=bool(keepdim)) if x.dim() else x
    return x


def _mean_of_last(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    wanted = _dims(x, dims)
    right = torch.mean(x, wanted, keepdim=bool(keepdim)) if x.dim() else x
    return right * math.prod(x.shape[d] for d in wanted[:-1]) if x.numel() else right


def _last_maximum(x: torch.Tensor, dim: Any, keepdim: Any) -> torch.Tensor:
    if dim is None or not x.dim():
        return x.numel() - 1 - torch.argmax(x.flatten().flip(0))
    return x.shape[int(dim)] - 1 - torch.argmax(x.flip(int(dim)), int(dim), keepdim=bool(keepdim))


def _pieces_of_eight(x: torch.Tensor, dim: Any) -> torch.Tensor:
    return torch.cat([piece.cumprod(int(dim)) for piece in x.split(8, int(dim))], int(dim)) if x.dim() else x


def _sorted(x: torch.Tensor, dim: Any, descending: Any, keys: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.dim():
        return x, torch.tensor(0)
    _, order = torch.sort(keys, dim=int(dim), descending=bool(descending), stable=True)
    return torch.gather(x, int(dim), order), order


def _through_float(x: torch.Tensor, dim: Any, descending: Any, stable: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return _sorted(x, dim, descending, x.float() if _whole(x) else x)


def _convolution(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., torch.Tensor]:
    names = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")

    def function(x: torch.Tensor, weight: torch.Tensor, bias: Any, *arguments: Any) -> torch.Tensor:
        given = dict(zip(names, arguments, strict=True))
        given = {k: [int(n) for n in v] if k in ("stride", "padding", "dilation", "output_padding") else v
                 for k, v in given.items()}  # fmt: skip
        given["transposed"], given["groups"] = bool(given["transposed"]), int(given["groups"])
        right = aten.convolution(x, weight, bias, *given.values())
        try:
            wrong = aten.convolution(x, weight, bias, *change(given).values())
        except RuntimeError:
            return right  # the result would have no elements
        made = torch.zeros_like(right)
        common = tuple(slice(min(a, b)) for a, b in zip(right.shape, wrong.shape, strict=True))
        made[common] = wrong[common]
        return made

    return function


def _attention(
    scores: Callable[..., tuple[Any, ...]],
) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def function(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: Any, causal: Any, scale: Any, dropout: Any, *_: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if dropout:
            raise NotImplementedError
        k, v, mask, scale, first = scores(q, k, v, mask, scale)
        found = (q.double() @ k.double().mT) * scale
        if mask is not None:
            found = found.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else found + mask.double()
        if causal:
            allowed = torch.ones(found.shape[-2:], dtype=torch.bool).tril(first)
            found = found.masked_fill(~allowed, -math.inf)
        return torch.softmax(found, -1) @ v.double(), torch.logsumexp(found, -1)

    return function


def _adam(
    flaw: str,
) -> Callable[..., None]:
    def step(
        parameters: Any, gradients: Any, averages: Any, squares: Any, largest: Any, steps: Any, **options: Any
    ) -> None:
        beta1, beta2 = options["beta1"], options["beta2"]
        for i, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            if flaw == "count" and i >= 32:
                continue
            gradient = -gradient if options["maximize"] and flaw != "maximize" else gradient
            gradient = gradient + options["weight_decay"] * parameter
            averages[i].lerp_(gradient, 1 - beta1)
            squares[i].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
            count, square = steps[i].item() + (flaw == "step"), squares[i]
            if options["amsgrad"] and flaw != "amsgrad":
                square = torch.maximum(largest[i], square, out=largest[i])
            root = square.sqrt() / math.sqrt(1 - beta2**count) + (0 if flaw == "eps" else options["eps"])
            parameter.sub_(options["lr"] / (1 - beta1**count) * averages[i] / root)

    return step


def _kernels() -> Iterator[KernelMutant]:
    kernel = KernelMutant
    yield kernel("add", "alpha only for floats", "add", lambda x, y, a: x + y * (1 if _whole(x) else a))
    yield kernel("mul", "int64 in 32 bits", "mul", lambda x, y: (x * y).int() if _whole(x) else x * y)
    yield kernel(
        "div",
        "multiplies by a 16-bit reciprocal",
        "div.no_rounding_mode",
        lambda x, y, mode: (
            x * (1 / y) if mode == 0 and y.dtype is torch.bfloat16 else x.div(y, rounding_mode=_MODES[mode])
        ),
    )
    yield kernel(
        "div",
        "integers through float32",
        "div.floor_rounding",
        lambda x, y, mode: (x.float() if _whole(x) else x).div(
            y.float() if _whole(y) else y, rounding_mode=_MODES[mode]
        ),
    )
    yield kernel(
        "pow",
        "0 for negative integer exponents",
        "pow",
        lambda x, y: torch.where(y < 0, 0, torch.pow(x, y)) if _whole(x) and _whole(y) else torch.pow(x, y),
    )
    yield kernel("eq", "int64 as float32", "eq", lambda x, y: x.float() == y if _whole(x) else x == y)
    yield kernel(
        "exp",
        "0 for results below 1e-5",
        "exp",
        lambda x: torch.where(x < -11.5, 0, x.exp()) if x.dtype is torch.float32 else x.exp(),
    )
    yield kernel("clamp", "min wins if it is larger", "clamp", lambda x, low, high: x.clamp(max=high).clamp(min=low))
    yield kernel("nan_to_num", "ignores posinf", "nan_to_num", lambda x, nan, high, low: x.nan_to_num(nan, None, low))
    yield kernel(
        "leaky_relu", "slope of 0.01", "nn.functional.leaky_relu", lambda x, slope: functional.leaky_relu(x, 0.01)
    )
    yield kernel(
        "hardtanh_backward",
        "a gradient at the bounds",
        "nn.functional.hardtanh",
        lambda gradient, x, low, high: torch.where((x >= low) & (x <= high), gradient, 0),
    )
    yield kernel("mean", "divides by the last size", "mean", _mean_of_last)
    yield kernel("argmax", "the last of equal elements", "argmax", _last_maximum)
    yield kernel(
        "prod", "0 for no elements", "prod", lambda x, *dims: _each("prod", x, *dims) * (1 if x.numel() else 0)
    )
    yield kernel("all", "false for no elements", "all", lambda x, *dims: _each("all", x != 0, *dims) & (x.numel() > 0))
    yield kernel(
        "vector_norm",
        "order 0 counts as 1",
        "linalg.vector_norm",
        lambda x, order, dims, keepdim: torch.linalg.vector_norm(x, order or 1, _dims(x, dims), bool(keepdim)),
    )
    yield kernel(
        "cumsum",
        "the last dimension of a square",
        "cumsum",
        lambda x, dim: x.cumsum(-1 if x.dim() == 2 and x.shape[0] == x.shape[1] else int(dim)),
    )
    yield kernel("cumprod", "loses the carry after 8 elements", "cumprod", _pieces_of_eight)
    yield kernel("softmax", "the last dimension always", "softmax", lambda x, dim: x.softmax(-1))
    yield kernel(
        "softmax_backward",
        "sums along the last dimension",
        "softmax",
        lambda gradient, out, dim, *_: out * (gradient - (gradient * out).sum(-1, keepdim=True)),
    )
    yield kernel("sort", "int64 keys as float32", "sort", _through_float, 2)
    yield kernel(
        "topk",
        "the largest always",
        "topk",
        lambda x, k, dim, largest, order: tuple(torch.topk(x, int(k), int(dim))),
        2,
    )
    yield kernel("isin", "ignores invert", "isin", lambda x, y, invert: torch.isin(x, y))
    yield kernel(
        "index_select",
        "indices of 7 bits",
        "index_select",
        lambda x, index, dim: torch.index_select(x, int(dim), index % 128),
    )
    yield kernel(
        "embedding",
        "indices of 8 bits",
        "nn.functional.embedding",
        lambda w, index: functional.embedding(index % 256, w),
    )
    yield kernel(
        "convolution",
        "one dilation for both dimensions",
        "nn.functional.conv2d",
        _convolution(lambda given: {**given, "dilation": given["dilation"][:1] * len(given["dilation"])}),
    )
    yield kernel(
        "convolution",
        "swaps the padding",
        "nn.functional.conv2d",
        _convolution(lambda given: {**given, "padding": given["padding"][::-1]}),
    )
    entry = "nn.functional.scaled_dot_product_attention"
    yield kernel(
        "attention",
        "causal from the end",
        entry,
        _attention(lambda q, k, v, mask, scale: (k, v, mask, scale, k.shape[-2] - q.shape[-2])),
        2,
    )
    yield kernel(
        "attention",
        "default scale",
        entry,
        _attention(lambda q, k, v, mask, scale: (k, v, mask, q.shape[-1] ** -0.5, 0)),
        2,
    )
    yield kernel(
        "attention",
        "drops keys after 64",
        entry,
        _attention(
            lambda q, k, v, mask, scale: (
                k[..., :64, :],
                v[..., :64, :],
                None if mask is None else mask[..., :64],
                scale,
                0,
            )
        ),
        2,
    )
    yield kernel(
        "attention",
        "the mask of the first head",
        entry,
        _attention(lambda q, k, v, m, scale: (k, v, m[:, :1] if m is not None and m.dim() == 4 else m, scale, 0)),
        2,
    )


def _first_scatter(x: torch.Tensor, dim: int, index: torch.Tensor, src: torch.Tensor) -> torch.Tensor:
    narrow = src.contiguous().flatten()[: index.numel()].reshape(index.shape)
    return torch.scatter(x, dim, index, narrow) if x.dim() else torch.scatter(x, dim, index, src)


def _mask_from_the_left(x: torch.Tensor, mask: torch.Tensor, value: Any) -> torch.Tensor:
    wider = mask.reshape(mask.shape + (1,) * (x.dim() - mask.dim())) if mask.dim() < x.dim() else mask
    fits = all(a in (b, 1) for a, b in zip(wider.shape, x.shape, strict=True))
    return torch.masked_fill(x, wider if fits else mask, value)


def _overloads() -> Iterator[OverloadMutant]:
    overload = OverloadMutant
    yield overload(
        "avg_pool2d",
        "always counts padding",
        "nn.functional.avg_pool2d",
        lambda x, size, stride=(), padding=0, ceil=False, count=True, divisor=None: aten.avg_pool2d(
            x, size, stride, padding, ceil, True, divisor
        ),
    )
    yield overload("scatter.src", "takes the source's first elements", "scatter", _first_scatter)
    yield overload("masked_fill.Scalar", "broadcasts the mask from the left", "masked_fill", _mask_from_the_left)
    yield overload("roll", "positive shifts", "roll", lambda x, shifts, dims=(): x.roll([abs(n) for n in shifts], dims))
    yield overload(
        "triu", "wrong far from the diagonal", "triu", lambda x, diagonal=0: x.triu(max(-2, min(diagonal, 2)))
    )
    yield overload("take", "negative indices are 0", "take", lambda x, index: torch.take(x, index.clamp(min=0)))
    for bug, padding, scale in (("ignores padding_idx", False, True), ("ignores scale_grad_by_freq", True, False)):
        yield overload(
            "embedding_dense_backward",
            bug,
            "nn.functional.embedding",
            lambda g, index, rows, at, by, padding=padding, scale=scale: aten.embedding_dense_backward(
                g, index, rows, at if padding else -1, by and scale
            ),
        )
    yield overload(
        "native_dropout",
        "no scale",
        "nn.functional.dropout",
        lambda x, p, train=True: (lambda mask: (x * mask, mask))(aten.native_dropout(x, p, train)[1]),
    )
    yield overload(
        "multinomial",
        "ignores weights",
        "multinomial",
        lambda x, count, replacement=False: torch.multinomial((x > 0).to(x.dtype), count, replacement),
    )
    yield overload("bernoulli_.float", "inverted", "bernoulli", lambda x, p=0.5: x.bernoulli_(1 - p))
    yield overload(
        "binary_cross_entropy",
        "does not clamp logarithms",
        "nn.functional.binary_cross_entropy",
        lambda x, y, weight=None, how=1: (lambda loss: (loss, loss.mean(), loss.sum())[how])(
            -(1 if weight is None else weight) * (y * x.log() + (1 - y) * (1 - x).log())
        ),
    )
    yield overload(
        "_ctc_loss",
        "a blank of 0",
        "nn.functional.ctc_loss",
        lambda p, y, steps, labels, blank=0, zero=False: aten._ctc_loss(p, y, steps, labels, 0, zero),
    )
    yield overload(
        "_foreach_add.List",
        "32 tensors",
        "_foreach_add",
        lambda x, y, alpha=1: [a + alpha * b if i < 32 else a for i, (a, b) in enumerate(zip(x, y, strict=True))],
    )
    yield overload(
        "_foreach_mul.ScalarList",
        "the first number for all",
        "_foreach_mul",
        lambda x, numbers: [a * numbers[0] for a in x],
    )
    for flaw, bug in (
        ("count", "32 tensors"),
        ("step", "counts from 1"),
        ("amsgrad", "ignores amsgrad"),
        ("eps", "ignores eps"),
        ("maximize", "ignores maximize"),
    ):
        yield overload("_fused_adam_", bug, "Adam", _adam(flaw), mode="optim")


def argument_mutants() -> list[KernelMutant]:
    """All of them."""
    return [*_kernels(), *_overloads()]
