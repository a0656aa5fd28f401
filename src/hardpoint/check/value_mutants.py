"""Vendor kernels with one wrong value, argument or kind of number each, for :mod:`mutation`.

Planted by someone who had written the list of bugs before reading the cases of :mod:`generated` and
:mod:`extra_samples`. A bug is called as its operator is, in the notation of the operators page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from hardpoint.check.argument_mutants import KernelMutant, OverloadMutant, _convolution, _dims, _each, aten
from hardpoint.check.mutants import Mutant, _all_dims, _changed, _first
from hardpoint.kernels import Kernel


@dataclass(frozen=True)
class OutputMutant(KernelMutant):
    """The same for a kernel that needs the output's shape and dtype: the function gets it first, on the CPU."""

    def plant(self, device: str) -> AbstractContextManager[Any]:
        """Serve the operator by the broken kernel, until the result is removed."""

        def kernel(out: Any, *arguments: Any) -> None:
            target = torch.from_dlpack(out)
            inputs = [torch.from_dlpack(a) if hasattr(a, "data_ptr") else a for a in arguments]
            found = self.function(target.cpu(), *(a.cpu() if isinstance(a, torch.Tensor) else a for a in inputs))
            target.copy_(found.to(target.dtype).reshape(target.shape))

        return Kernel(self.operator, kernel).register(device)


def _floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def _in_16_bits(x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    if x.dtype not in (torch.bfloat16, torch.float16) or not x.dim():
        return torch.sum(x, _dims(x, dims), keepdim=bool(keepdim)) if x.dim() else x
    for dim in sorted(_dims(x, dims), reverse=True):
        total = torch.zeros(x.shape[:dim] + x.shape[dim + 1 :], dtype=x.dtype)
        for part in x.unbind(dim):
            total = total + part
        x = total.unsqueeze(dim) if keepdim else total
    return x


def _reduced(function: Callable[..., torch.Tensor], x: torch.Tensor, dims: Any, keepdim: Any) -> torch.Tensor:
    return function(x, _dims(x, dims), keepdim=bool(keepdim)) if x.dim() else x


def _last_maximum(x: torch.Tensor, dim: int, keepdim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.dim():
        return x, torch.tensor(0)
    values, index = torch.max(x.flip(dim), dim, keepdim=bool(keepdim))
    return values, x.shape[dim] - 1 - index


def _truncated(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if out.dtype is torch.bfloat16 and x.dtype is torch.float32:
        return (x.view(torch.int32) & -65536).view(torch.float32)
    return x


def _largest_half(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.double().clamp(-65504, 65504) if out.dtype is torch.float16 and _floating(x) else x


def _saturated(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if out.dtype not in (torch.int32, torch.uint8) or x.dtype is not torch.int64:
        return x
    return x.clamp(torch.iinfo(out.dtype).min, torch.iinfo(out.dtype).max)


def _whole_part(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.to(torch.int64) != 0 if out.dtype is torch.bool and _floating(x) else x


def _infinite_nan(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.isnan(), math.inf, x) if out.dtype is torch.bfloat16 and _floating(x) else x


def _through_float(out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype is torch.int64 and out.dtype is torch.float64 else x


def _without_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.isnan(), -math.inf, x) if _floating(x) else x


def _nan_last(x: torch.Tensor, k: Any, dim: Any, largest: Any, order: Any) -> tuple[torch.Tensor, torch.Tensor]:
    index = torch.topk(_without_nan(x), int(k), int(dim), bool(largest), bool(order))[1]
    return torch.gather(x, int(dim), index) if x.dim() else x, index


def _nan_first(x: torch.Tensor, dim: Any, descending: Any, stable: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.dim():
        return x, torch.tensor(0)
    index = torch.sort(_without_nan(x), dim=int(dim), descending=bool(descending), stable=True)[1]
    return torch.gather(x, int(dim), index), index


def _unstable(x: torch.Tensor, dim: Any, descending: Any, stable: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.dim():
        return x, torch.tensor(0)
    dim, size = int(dim), x.shape[int(dim)]
    index = size - 1 - torch.sort(x.flip(dim), dim=dim, descending=bool(descending), stable=True)[1]
    return torch.gather(x, dim, index), index


def _upper_median(x: torch.Tensor, dim: Any, keepdim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    if not x.dim():
        return x, torch.tensor(0)
    dim = int(dim)
    if _floating(x) and x.isnan().any():
        values, index = torch.median(x, dim, bool(keepdim))
        return values, index
    values, index = (part.narrow(dim, x.shape[dim] // 2, 1) for part in torch.sort(x, dim=dim, stable=True))
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


def _first_cummax(x: torch.Tensor, dim: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values, index = torch.cummax(x, int(dim))
    if not x.dim() or not x.numel():
        return values, index
    before = values.narrow(int(dim), 0, x.shape[int(dim)] - 1)
    first = torch.ones_like(x.narrow(int(dim), 0, 1), dtype=torch.bool)
    larger = torch.cat([first, x.narrow(int(dim), 1, x.shape[int(dim)] - 1) > before], int(dim))
    shape = [-1 if d == int(dim) % x.dim() else 1 for d in range(x.dim())]
    position = torch.arange(x.shape[int(dim)]).reshape(shape).expand(x.shape)
    return values, torch.cummax(torch.where(larger, position, 0), int(dim))[0]


def _first_group(x: torch.Tensor, weight: torch.Tensor, bias: Any, *given: Any) -> torch.Tensor:
    stride, padding, dilation, output = ([int(n) for n in given[i]] for i in (0, 1, 2, 4))
    transposed, groups = bool(given[3]), int(given[5])
    if groups > 1 and not transposed:
        x = x[:, : x.shape[1] // groups].repeat(1, groups, *[1] * (x.dim() - 2))
    right: torch.Tensor = aten.convolution(x, weight, bias, stride, padding, dilation, transposed, output, groups)
    return right


def _equal_windows(x: torch.Tensor, size: Any) -> torch.Tensor:
    height, width = x.shape[-2] // size[0], x.shape[-1] // size[1]
    if height == 0 or width == 0:
        right: torch.Tensor = aten._adaptive_avg_pool2d(x, size)
        return right
    return functional.avg_pool2d(x[..., : height * size[0], : width * size[1]], (height, width))


def _batch_norm(flaw: str) -> Callable[..., Any]:
    def function(
        x: torch.Tensor, w: Any, b: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
    ) -> Any:
        old = None if var is None else var.clone()
        factor, small = 1 - momentum if flaw == "momentum" else momentum, 1e-5 if flaw == "eps" else eps
        out = aten.native_batch_norm(x, w, b, mean, var, training, factor, small)
        if flaw == "biased" and training and var is not None and old is not None and x.dim() > 1:
            biased = x.transpose(0, 1).flatten(1).var(1, correction=0).to(var.dtype)
            var.copy_((1 - momentum) * old + momentum * biased)
        return out

    return lambda *given, **keywords: function(*given, *keywords.values())


def _sgd(flaw: str) -> Callable[..., None]:
    names = ("weight_decay", "momentum", "lr", "dampening", "nesterov", "maximize", "is_first_step")

    def step(parameters: Any, gradients: Any, buffers: Any, *given: Any, **keywords: Any) -> None:
        o = {**dict(zip(names, given, strict=False)), **keywords}
        for i, (parameter, gradient) in enumerate(zip(parameters, gradients, strict=True)):
            g = -gradient if o["maximize"] else gradient
            g = g if flaw == "decay" else g + o["weight_decay"] * parameter
            if o["momentum"]:
                if o["is_first_step"] and flaw != "first":
                    buffers[i].copy_(g)
                else:
                    buffers[i].mul_(o["momentum"]).add_(g, alpha=1 if flaw == "dampening" else 1 - o["dampening"])
                g = g + o["momentum"] * buffers[i] if o["nesterov"] and flaw != "nesterov" else buffers[i]
            parameter.sub_(o["lr"] * g)

    return step


def _first_4096(left: Any, right: Any, alpha: Any = 1) -> None:
    for x, y in zip(left, right, strict=True):
        new = x + alpha * y
        if x.is_contiguous():
            x.view(-1)[:4096].copy_(new.view(-1)[:4096])
        else:
            x.copy_(new)


def _accumulated(out: torch.Tensor, start: Any, step: Any) -> torch.Tensor:
    dtype = out.dtype if out.dtype is torch.float64 else torch.float32
    return torch.from_numpy(np.add.accumulate(torch.full(out.shape, float(step), dtype=dtype).numpy())) - step + start


def _drawn(kind: str, out: torch.Tensor, seed: Any, offset: Any) -> torch.Tensor:
    generator = torch.Generator().manual_seed(int(seed) + int(offset))
    drawn: torch.Tensor = getattr(torch, kind)(out.shape, generator=generator)
    return drawn


def _logical_shift(x: torch.Tensor, y: Any) -> torch.Tensor:
    count = torch.as_tensor(y)
    if x.dtype is not torch.int64:
        return x >> count
    kept = (x >> count) & ((1 << (63 - count.clamp(0, 62))) * 2 - 1)
    return torch.where((x < 0) & (count > 0) & (count < 63), kept, x >> count)


def _divided_by_all(scores: torch.Tensor, target: torch.Tensor, weight: Any, how: int, ignored: int) -> Any:
    loss, total = aten.nll_loss_forward(scores, target, weight, how, ignored)
    if how == 1 and weight is None:
        loss = loss * total / max(target.numel(), 1)
    return loss, total


def _divided_by_count(scores: torch.Tensor, target: torch.Tensor, weight: Any, how: int, ignored: int) -> Any:
    loss, total = aten.nll_loss_forward(scores, target, weight, how, ignored)
    if how == 1 and weight is not None:
        loss = aten.nll_loss_forward(scores, target, weight, 2, ignored)[0] / max(target.numel(), 1)
    return loss, total


def _all_but_duplicates(
    x: torch.Tensor, indices: Any, values: Any, accumulate: bool = False, unsafe: bool = False
) -> Any:
    if accumulate:
        values = x[[slice(None) if index is None else index for index in indices]] + values
    return aten._index_put_impl_(x, indices, values, False, unsafe)


def _last_of_duplicates(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if not x.dim():
        return x.scatter_add(dim, index, source)
    return x.scatter(dim, index, source[tuple(map(slice, index.shape))] + torch.gather(x, dim, index))


def _dropout(x: torch.Tensor, p: float, train: bool = True) -> Any:
    if not train:
        return x, torch.ones_like(x, dtype=torch.bool)
    mask = torch.rand(x.shape) >= p
    return x * mask / torch.tensor(1 - p), mask


def _power_of_two(count: int) -> int:
    return count - 1 if count >= 1024 and count & (count - 1) == 0 else count


def _found_blind() -> Iterator[Mutant | KernelMutant]:
    kernel, overload, output = KernelMutant, OverloadMutant, OutputMutant
    yield kernel("sub", "absolute alpha", "sub", lambda x, y, a: x - y * abs(a))
    yield kernel(
        "mul",
        "numbers as float32",
        "mul",
        lambda x, y: x * torch.tensor(y, dtype=torch.float32).double().item() if isinstance(y, float) else x * y,
    )
    yield kernel(
        "div",
        "floor truncates",
        "div.floor_rounding",
        lambda x, y, m: torch.div(x, y, rounding_mode=(None, "trunc", "trunc")[m]),
    )
    yield kernel("remainder", "sign of the dividend", "remainder", lambda x, y: torch.fmod(x, y))
    yield kernel("fmod", "0 loses its sign", "fmod", lambda x, y: torch.fmod(x, y) + 0)
    yield kernel(
        "pow",
        "NaN for negative bases",
        "pow",
        lambda x, y: torch.where(x < 0, math.nan, torch.pow(x, y)) if _floating(x) else torch.pow(x, y),
    )
    yield kernel(
        "pow",
        "0 to the 0 is NaN",
        "pow",
        lambda x, y: (
            torch.where((x == 0) & (torch.as_tensor(y) == 0), math.nan, torch.pow(x, y))
            if _floating(x)
            else torch.pow(x, y)
        ),
    )
    yield kernel(
        "round",
        "halves away from zero",
        "round",
        lambda x: torch.sign(x) * torch.floor(x.abs() + 0.5) if _floating(x) else x,
    )
    yield kernel(
        "round_decimals", "absolute decimals", "round.decimals_neg_3", lambda x, d: torch.round(x, decimals=abs(int(d)))
    )
    yield output("copy", "truncates to bfloat16", "bfloat16", _truncated)
    yield output("copy", "saturates float16", "half", _largest_half)
    yield output("copy", "saturates integers", "int", _saturated)
    yield output("copy", "saturates integers (byte)", "byte", _saturated)
    yield output("copy", "fractions are false", "bool", _whole_part)
    yield output("copy", "NaN to infinity in bfloat16", "bfloat16", _infinite_nan)
    yield output("copy", "int64 to float64 through float32", "double", _through_float)
    yield kernel("sum", "16-bit accumulator", "sum", _in_16_bits)
    yield kernel(
        "mean",
        "divides by all elements",
        "mean",
        lambda x, d, k: _reduced(torch.sum, x, d, k) / max(x.numel(), 1) if x.dim() else x,
    )
    yield kernel("amax", "ignores NaN", "amax", lambda x, d, k: _reduced(torch.amax, _without_nan(x), d, k))
    yield kernel(
        "max_dim", "last of equal elements", "max.reduction_with_dim", lambda x, d, k: _last_maximum(x, int(d), k), 2
    )
    yield kernel(
        "argmax",
        "NaN is smallest",
        "argmax",
        lambda x, d, k: (
            torch.argmax(_without_nan(x))
            if d is None or not x.dim()
            else torch.argmax(_without_nan(x), int(d), bool(k))
        ),
    )
    yield kernel(
        "minimum",
        "ignores NaN",
        "minimum",
        lambda x, y: (
            torch.fmin(x, torch.as_tensor(y).to(x.dtype))
            if isinstance(x, torch.Tensor)
            else torch.fmin(torch.as_tensor(x).to(y.dtype), y)
        ),
    )
    yield kernel("relu", "NaN becomes 0", "nn.functional.relu", lambda x: torch.where(x > 0, x, 0))
    yield kernel(
        "clamp",
        "NaN becomes min",
        "clamp",
        lambda x, lo, hi: (
            torch.where(x.isnan(), lo, x.clamp(lo, hi)) if _floating(x) and lo is not None else x.clamp(lo, hi)
        ),
    )
    yield kernel("abs", "keeps -0", "abs", lambda x: torch.where(x == 0, x, x.abs()))
    yield kernel("neg", "subtracts from 0", "neg", lambda x: 0 - x)
    yield kernel(
        "sqrt",
        "0 for subnormals",
        "sqrt",
        lambda x: (
            torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0 * x, x.sqrt()) if _floating(x) else x.float().sqrt()
        ),
    )
    yield kernel("atan2", "ignores the sign of 0", "atan2", lambda y, x: torch.atan2(y + 0.0, x + 0.0))
    yield kernel("hypot", "overflows", "hypot", lambda x, y: (x * x + y * y).sqrt())
    yield kernel("log1p", "logarithm of 1 + x", "log1p", lambda x: (1 + x).log())
    yield kernel("expm1", "exponential minus 1", "expm1", lambda x: x.exp() - 1)
    yield kernel("sigmoid", "NaN for large numbers", "sigmoid", lambda x: x.exp() / (1 + x.exp()))
    yield kernel(
        "softplus", "ignores the threshold", "nn.functional.softplus", lambda x, b, t: torch.log1p((b * x).exp()) / b
    )
    yield kernel("softplus", "ignores beta", "nn.functional.softplus", lambda x, b, t: functional.softplus(x, 1, t))
    yield kernel("gelu", "ignores tanh", "nn.functional.gelu", lambda x, v=0: functional.gelu(x))
    yield kernel("elu", "alpha of 1", "nn.functional.elu", lambda x, a, s, i: aten.elu(x, 1, s, i))
    yield kernel("elu", "ignores the scale", "nn.functional.selu", lambda x, a, s, i: aten.elu(x, a, 1, i))
    yield kernel("hardtanh", "from -1 to 1", "nn.functional.hardtanh", lambda x, a, b: x.clamp(-1, 1))
    yield kernel(
        "cumsum",
        "32 bits for integers",
        "cumsum",
        lambda x, d: x.cumsum(int(d)).int() if x.dtype is torch.int64 else x.cumsum(int(d)),
    )
    yield kernel("cummax", "first of equal elements", "cummax", _first_cummax, 2)
    yield kernel(
        "logcumsumexp", "NaN after -inf", "logcumsumexp", lambda x, d: x.exp().cumsum(int(d)).log() if x.dim() else x
    )
    yield kernel("sort", "NaN first", "sort", _nan_first, 2)
    yield kernel("sort", "not stable", "sort", _unstable, 2)
    yield kernel("topk", "NaN last", "topk", _nan_last, 2)
    yield kernel("median", "upper median", "median", _upper_median, 2)
    yield kernel("searchsorted", "ignores right", "searchsorted", lambda q, x, s, r: torch.searchsorted(q, x, sorter=s))
    yield kernel(
        "searchsorted", "ignores sorter", "searchsorted", lambda q, x, s, r: torch.searchsorted(q, x, right=bool(r))
    )
    yield overload(
        "bincount",
        "ignores weights",
        "bincount",
        lambda x, w=None, m=0: (
            torch.bincount(x, minlength=m)
            if w is None
            else torch.bincount(x, minlength=m).to(torch.float64 if w.dtype != torch.float32 else w.dtype)
        ),
    )
    yield overload("scatter_add", "loses duplicates", "scatter_add", _last_of_duplicates)
    yield overload(
        "scatter_reduce.two",
        "always includes self",
        "scatter_reduce.amax",
        lambda x, d, i, s, r, include_self=True: aten.scatter_reduce.two(x, d, i, s, r, include_self=True),
    )
    yield overload("index_add", "ignores alpha", "index_add", lambda x, d, i, s, alpha=1: x.index_add(d, i, s))
    yield overload("_index_put_impl_", "loses duplicates", "index_put", _all_but_duplicates)
    yield overload("nll_loss_forward", "counts what is ignored", "nn.functional.nll_loss", _divided_by_all)
    yield overload("nll_loss_forward", "mean without weights", "nn.functional.nll_loss", _divided_by_count)
    yield overload(
        "binary_cross_entropy_with_logits",
        "ignores pos_weight",
        "nn.functional.binary_cross_entropy_with_logits",
        lambda x, t, w=None, p=None, r=1: aten.binary_cross_entropy_with_logits(x, t, w, None, r),
    )
    yield kernel(
        "huber_loss", "delta of 1", "nn.functional.huber_loss", lambda x, t, r, d: aten.huber_loss(x, t, int(r), 1.0)
    )
    yield kernel(
        "smooth_l1_loss",
        "beta of 1",
        "nn.functional.smooth_l1_loss",
        lambda x, t, r, b: aten.smooth_l1_loss(x, t, int(r), 1.0),
    )
    yield kernel("convolution", "every group reads the first", "nn.functional.conv2d", _first_group)
    yield kernel(
        "convolution",
        "ignores output_padding",
        "nn.functional.conv_transpose2d",
        _convolution(lambda g: {**g, "output_padding": [0] * len(g["output_padding"])}),
    )
    yield kernel(
        "convolution",
        "one stride for both",
        "nn.functional.conv2d",
        _convolution(lambda g: {**g, "stride": g["stride"][:1] * len(g["stride"])}),
    )
    yield overload(
        "avg_pool2d",
        "ignores divisor_override",
        "nn.functional.avg_pool2d",
        lambda x, k, s=(), p=0, c=False, i=True, d=None: aten.avg_pool2d(x, k, s, p, c, i, None),
    )
    yield overload("_adaptive_avg_pool2d", "equal windows", "nn.functional.adaptive_avg_pool2d", _equal_windows)
    yield overload(
        "upsample_bilinear2d",
        "ignores align_corners",
        "nn.functional.interpolate.bilinear",
        lambda x, z, ac, a=None, b=None: aten.upsample_bilinear2d(x, z, False, a, b),
    )
    yield overload(
        "grid_sampler_2d",
        "reflection is border",
        "nn.functional.grid_sample",
        lambda x, g, m, p, a: aten.grid_sampler_2d(x, g, m, min(p, 1), a),
    )
    yield overload(
        "grid_sampler_2d",
        "ignores align_corners",
        "nn.functional.grid_sample",
        lambda x, g, m, p, a: aten.grid_sampler_2d(x, g, m, p, False),
    )
    for flaw in ("momentum", "biased", "eps"):
        yield overload("native_batch_norm", f"wrong {flaw}", "nn.functional.batch_norm", _batch_norm(flaw))
    yield overload(
        "native_layer_norm",
        "eps of 1e-5",
        "native_layer_norm",
        lambda x, n, w, b, e: aten.native_layer_norm(x, n, w, b, 1e-5),
    )
    yield overload(
        "native_layer_norm",
        "ignores bias without weight",
        "native_layer_norm",
        lambda x, n, w, b, e: aten.native_layer_norm(x, n, w, b if w is not None else None, e),
    )
    yield overload(
        "native_group_norm",
        "eps of 1e-5",
        "nn.functional.group_norm",
        lambda x, w, b, n, c, h, g, e: aten.native_group_norm(x, w, b, n, c, h, g, 1e-5),
    )
    yield overload("native_dropout", "NaN for p of 1", "nn.functional.dropout", _dropout)
    yield kernel(
        "var",
        "correction of 1",
        "var",
        lambda x, d, c, k: (
            torch.var(x, _all_dims(x, d), correction=1, keepdim=bool(k)) if x.dim() else torch.var(x, correction=1)
        ),
    )
    yield kernel(
        "vector_norm",
        "-inf is inf",
        "linalg.vector_norm",
        lambda x, o, d, k: torch.linalg.vector_norm(x, abs(o), _dims(x, d) if x.dim() else None, bool(k)),
    )
    yield overload("_cdist_forward", "order 2 always", "cdist", lambda a, b, p, m: aten._cdist_forward(a, b, 2.0, m))
    yield kernel("addmm", "ignores beta", "addmm", lambda s, a, b, be, al: s + al * (a @ b))
    yield overload("flip", "the first dimension only", "flip", lambda x, d: x.flip(d[:1]))
    yield output("arange", "accumulates the step", "arange", _accumulated)
    yield output(
        "linspace",
        "excludes the end",
        "linspace",
        lambda o, s, e: s + (e - s) * torch.arange(o.numel(), dtype=torch.float64) / max(o.numel(), 1),
    )
    yield output("uniform", "ignores from", "uniform", lambda o, s, f, a, b: _drawn("rand", o, s, f) * b)
    yield output("normal", "the square of std", "normal", lambda o, s, f, a, b: _drawn("randn", o, s, f) * b * b + a)
    yield overload("_foreach_add_.List", "loses the tail of large tensors", "_foreach_add", _first_4096)
    for flaw in ("decay", "dampening", "nesterov", "first"):
        yield overload("_fused_sgd_", f"wrong {flaw}", "SGD", _sgd(flaw), mode="optim")
    yield kernel("bitwise_right_shift", "logical shift", "bitwise_right_shift", _logical_shift)
    yield kernel(
        "bitwise_left_shift", "count modulo 32", "bitwise_left_shift", lambda x, y: x << (torch.as_tensor(y) % 32)
    )
    yield kernel(
        "sum",
        "integers in float64",
        "sum",
        lambda x, d, k: (
            _reduced(torch.sum, x.double(), d, k).long()
            if x.dtype is torch.int64 and x.dim()
            else (_reduced(torch.sum, x, d, k))
        ),
    )
    yield kernel("any", "NaN is false", "any", lambda x, d, k: _reduced(torch.any, (x != 0) & (x == x), d, k))
    yield kernel("gt", "NaN is larger", "gt", lambda x, y: ~(x <= y))
    yield kernel(
        "lt",
        "int64 as float64",
        "lt",
        lambda x, y: x.double() < y if isinstance(x, torch.Tensor) and x.dtype is torch.int64 else x < y,
    )
    yield kernel("signbit", "-0 is not negative", "signbit", lambda x: x < 0)
    yield kernel("copysign", "-0 is positive", "copysign", lambda x, y: torch.copysign(x, y + 0.0))
    yield kernel("xlogy", "NaN for 0", "xlogy", lambda x, y: x * torch.log(torch.as_tensor(y)))
    yield kernel("logaddexp", "overflows", "logaddexp", lambda x, y: (x.exp() + y.exp()).log())
    yield kernel("logit", "ignores eps", "logit", lambda x, e: torch.logit(x))
    yield kernel("sinc", "NaN at 0", "sinc", lambda x: torch.sin(math.pi * x) / (math.pi * x))
    yield kernel("addcdiv", "ignores value", "addcdiv", lambda x, a, b, v: x + a / b)
    yield kernel(
        "threshold", "keeps the threshold", "nn.functional.threshold", lambda x, t, v: torch.where(x >= t, x, v)
    )
    yield kernel(
        "hardshrink",
        "keeps the bounds",
        "nn.functional.hardshrink",
        lambda x, limit: torch.where(x.abs() >= limit, x, 0),
    )
    yield kernel(
        "gcd", "negative results", "gcd", lambda x, y: torch.gcd(x, y) * torch.where(torch.as_tensor(x) < 0, -1, 1)
    )
    yield kernel("nextafter", "0 for 0", "nextafter", lambda x, y: torch.where(x == 0, x, torch.nextafter(x, y)))
    yield kernel(
        "heaviside",
        "values are 0.5",
        "heaviside",
        lambda x, v: torch.where(x == 0, torch.tensor(0.5 if _floating(x) else 1).to(x.dtype), torch.heaviside(x, v)),
    )
    yield kernel(
        "trunc",
        "through int32",
        "trunc",
        lambda x: torch.where(x.abs() < 1e30, x.to(torch.int32).to(x.dtype), x) if _floating(x) else x,
    )
    yield kernel(
        "floor", "through int64", "floor", lambda x: torch.floor(x).to(torch.int64).to(x.dtype) if _floating(x) else x
    )
    yield kernel(
        "sin",
        "no range reduction",
        "sin",
        lambda x: torch.where(x.abs() > 1e5, 0, x.sin()) if _floating(x) else x.sin(),
    )
    yield kernel(
        "tanh", "0 for tiny", "tanh", lambda x: torch.where(x.abs() < 1e-6, 0, x.tanh()) if _floating(x) else x.tanh()
    )
    yield Mutant(
        "exp", "garbage in 0 dimensions", "exp", torch.exp, _changed(lambda r, i: r * 0 if r.dim() == 0 else r)
    )
    yield Mutant("cos", "loses the last of a power of two", "cos", torch.cos, _first(_power_of_two))
    yield Mutant("erf", "stops after 2**20 elements", "erf", torch.erf, _first(lambda n: 1 << 20))
    yield Mutant("log", "stops after 65535 * 256 elements", "log", torch.log, _first(lambda n: 65535 * 256))
    yield kernel("matmul", "int64 in 32 bits", "mm", lambda a, b: (a @ b).int() if a.dtype is torch.int64 else a @ b)
    yield kernel(
        "prod",
        "int64 in float64",
        "prod",
        lambda x, d, k: _each("prod", x.double(), d, k).long() if x.dtype is torch.int64 else _each("prod", x, d, k),
    )
    yield overload("linalg_inv_ex", "reports success for singular matrices", "linalg.inv", _solved)


def _solved(a: torch.Tensor, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.linalg.inv_ex(a)[0], torch.zeros(a.shape[:-2], dtype=torch.int32)


def value_mutants() -> list[Mutant | KernelMutant]:
    """All of them."""
    return list(_found_blind())
