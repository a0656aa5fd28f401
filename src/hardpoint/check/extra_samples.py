"""Samples that PyTorch's database lacks, by entry: one line of data each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from hardpoint.check.samples import Sample


class Maker(Protocol):
    """Makes an input of the dtype under test."""

    def __call__(self, *shape: int, low: float = -2, high: float = 2) -> torch.Tensor:
        """Random numbers between two limits."""


#: Arguments of a call after the function: positional ones, then keywords.
Call = tuple[Any, ...]


def _call(*arguments: Any, **keywords: Any) -> Call:
    return (*arguments, keywords)


def _attention(t: Maker) -> Iterable[Call]:
    q, k, v = t(2, 3, 5, 8), t(2, 3, 9, 8), t(2, 3, 9, 8)
    yield _call(q, k, v, is_causal=True)
    yield _call(t(2, 3, 9, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), is_causal=True)
    yield _call(q, k, v, scale=0.9)
    # Masks that need a gradient are not for fused kernels.
    yield _call(q, k, v, t(1, 3, 5, 9).detach())
    yield _call(q, k, v, t(2, 1, 5, 9).detach())
    yield _call(q, k, v, torch.arange(45).reshape(5, 9) % 3 > 0)
    yield _call(q, k, v, (torch.arange(2 * 9).reshape(2, 1, 1, 9) % 4 > 0).expand(2, 1, 5, 9))
    yield _call(t(1, 2, 131, 16), t(1, 2, 131, 16), t(1, 2, 131, 16), is_causal=True)


def _triangles(t: Maker) -> Iterable[Call]:
    for diagonal in (-11, -5, 4, 11):
        yield _call(t(13, 17), diagonal)
        yield _call(t(3, 17, 13), diagonal)


def _masked(t: Maker) -> Iterable[Call]:
    square = torch.tensor([True, False, False, True, True])
    yield _call(t(5, 5), square, 1)
    yield _call(t(5, 5), square[:, None], 1)
    yield _call(t(5, 5, 5), square[:, None], 1)


def _pooled(t: Maker) -> Iterable[Call]:
    image = t(2, 3, 11, 9)
    yield _call(image, 3, 2, 1, count_include_pad=False)
    yield _call(image, (3, 2), (2, 3), (1, 0), ceil_mode=True)
    yield _call(image, 3, 2, 1, True, False)
    yield _call(image, 3, 2, 1, divisor_override=5)


def _max_pooled(t: Maker) -> Iterable[Call]:
    image = t(2, 3, 11, 9, low=-3, high=-1)
    yield _call(image, 3, 2, 1)
    yield _call(image, (3, 2), (2, 1), (1, 0), (1, 2))
    yield _call(image, 3, 1, 1, 2, ceil_mode=True)


def _indices(*shape: int, rows: int = 300) -> torch.Tensor:
    """Indices of many rows: the first, the last, and some twice."""
    count = int(torch.tensor(shape).prod())
    made = torch.arange(count) * 37 % rows
    made[0], made[-1] = rows - 1, 0
    if count > 2:
        made[1] = made[2]
    return made.reshape(shape)


def _unique_indices(count: int, rows: int = 300) -> torch.Tensor:
    return torch.arange(count) * 37 % rows


def _scattered(t: Maker) -> Iterable[Call]:
    """Sources that are larger than the index, and tensors that are larger than both."""
    index = torch.stack([torch.randperm(9, generator=torch.Generator().manual_seed(i))[:5] for i in range(4)])
    yield _call(t(6, 9), 1, index, t(5, 7))
    yield _call(t(9, 6), 0, index.T.contiguous(), t(7, 5))
    yield _call(t(300, 3), 0, _unique_indices(41)[:, None].expand(-1, 3), t(41, 3))


def _reduced(how: str) -> Callable[[Maker], Iterable[Call]]:
    def calls(t: Maker) -> Iterable[Call]:
        for include in (True, False):
            yield _call(t(300, 3), 0, _indices(41, 3), t(43, 4), how, include_self=include)

    return calls


def _convolved(rank: int, transposed: bool = False) -> Callable[[Maker], Iterable[Call]]:
    """Each argument different in each dimension, groups with several outputs, and a kernel of three without padding."""

    def calls(t: Maker) -> Iterable[Call]:
        sizes, kernel = (13, 11, 9)[:rank], (3, 2, 3)[:rank]
        first, second, third = (1, 2, 1)[:rank], (2, 1, 3)[:rank], (0, 1, 2)[:rank]
        weight = t(4, 3, *kernel) if transposed else t(6, 2, *kernel)
        bias, image = t(6), t(2, 4, *sizes)
        extra = {"output_padding": (1, 0, 2)[:rank]} if transposed else {}
        yield _call(image, weight, bias, stride=second, padding=third, groups=2, **({**extra} if transposed else {}))
        yield _call(image, weight, bias, dilation=first, padding=third, groups=2)
        yield _call(image, weight, None, dilation=second, stride=first, groups=2)
        plain = t(4, 6, *(3,) * rank) if transposed else t(6, 4, *(3,) * rank)
        yield _call(image, plain, bias)

    return calls


def _embedded(t: Maker) -> Iterable[Call]:
    index = _indices(5, 7)
    # The database's function takes the weight first.
    yield _call(t(300, 4), index)
    yield _call(t(300, 4), index, padding_idx=int(index[1, 0]))
    yield _call(t(300, 4), index, scale_grad_by_freq=True)


def _ctc(t: Maker) -> Iterable[Call]:
    """A blank between the labels."""
    targets = torch.tensor([[0, 1, 3], [4, 4, 0]])
    yield _call(t(9, 2, 5), targets, torch.tensor([9, 7]), torch.tensor([3, 2]), blank=2)


def _dropped(t: Maker) -> Iterable[Call]:
    for p in (0.2, 0.8):
        yield _call(t(2003, low=1, high=1), p=p, training=True)


def _wide(t: Maker, *shape: int) -> torch.Tensor:
    """Integers whose sums need more than 32 bits."""
    made = t(*shape)
    return made + 2**40 if made.dtype is torch.int64 else made


def _class_loss(t: Maker) -> Iterable[Call]:
    """Classes with weights, and one that is ignored, which counts in no mean."""
    scores, target = t(7, 5), torch.tensor([0, 4, 1, 1, 3, 2, 4])
    for weight in (None, t(5, low=0.5, high=2).detach()):
        for reduction in ("mean", "sum", "none"):
            yield _call(scores, target, weight=weight, ignore_index=1, reduction=reduction)


def _interpolated(mode: str, rank: int) -> Callable[[Maker], Iterable[Call]]:
    def calls(t: Maker) -> Iterable[Call]:
        image, size = t(2, 3, *(5, 7, 4)[:rank]), (9, 4, 6)[:rank]
        corners = (None,) if mode in ("nearest", "nearest-exact", "area") else (True, False)
        for align in corners:
            yield _call(image, size, None, mode, align)
            yield _call(image, None, (1.7, 0.6, 2.0)[:rank], mode, align)

    return calls


def _grid_samples(t: Maker) -> Iterable[Call]:
    """Points inside and outside of the image."""
    for mode in ("bilinear", "nearest", "bicubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (True, False):
                grid = t(2, 4, 6, 2, low=-1.7, high=1.7)
                yield _call(t(2, 3, 5, 7), grid, mode, padding, align)


def _conversions(t: Maker) -> Iterable[Call]:
    """Numbers that round otherwise by way of a narrower type."""
    dtype = t(1).dtype
    if dtype is torch.float64:
        half = torch.tensor([1 + 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-11], dtype=torch.float64)
        yield _call(torch.cat([half + 2.0**-40, half - 2.0**-40]))
    if dtype is torch.int64:
        yield _call(torch.tensor([2**24 + 1, 2**40 + 1, 2**53 - 1, -(2**40) - 1, 2**62 + 1]))


def _without_self(*shapes: tuple[int, ...]) -> Callable[[Maker], Iterable[Call]]:
    """With a beta of 0, NaN in the tensor that is added does not count."""

    def calls(t: Maker) -> Iterable[Call]:
        first, *others = (t(*shape) for shape in shapes)
        if first.is_floating_point():
            yield _call(first.detach() * math.nan, *others, beta=0)
            yield _call(first, *others, beta=0.5, alpha=-1.5)

    return calls


def _close_integers(t: Maker) -> Iterable[Call]:
    """Integers that float64 cannot tell apart."""
    if t(1).dtype is torch.int64:
        base = torch.tensor([2**62, -(2**62), 2**53, 2**61 + 7])
        for difference in (-1, 0, 1):
            yield _call(base, base + difference)


#: Entry -> samples.
CALLS: dict[str, Callable[[Maker], Iterable[Call]]] = {
    "clamp": lambda t: [
        *(_call(t(67), min=low, max=high) for low, high in ((0, 1), (1, 0), (None, 1), (1, None))),
        *(_call(t(67), low, high) for low, high in ((-1, 1), (-0.5, 0.25))),
    ],
    "addmm": _without_self((5, 7), (5, 3), (3, 7)),
    "addmv": _without_self((5,), (5, 3), (3,)),
    "addr": _without_self((5, 7), (5,), (7,)),
    "baddbmm": _without_self((2, 5, 7), (2, 5, 3), (2, 3, 7)),
    "addbmm": _without_self((5, 7), (2, 5, 3), (2, 3, 7)),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum"), _close_integers),
    "mm": lambda t: [_call(_wide(t, 5, 7), t(7, 3))],
    "bmm": lambda t: [_call(_wide(t, 2, 5, 7), t(2, 7, 3))],
    "mv": lambda t: [_call(_wide(t, 5, 7), t(7))],
    "dot": lambda t: [_call(_wide(t, 7), t(7))],
    **dict.fromkeys(("median", "nanmedian"), lambda t: [_call(t(4, 6), 1), _call(t(4, 6), 0, True), _call(t(8, 1), 0)]),
    "linspace": lambda t: [_call(1, 50, steps, dtype=t(1).dtype) for steps in (8, 50)],
    "arange": lambda t: [_call(1, 800, 0.1 if t(1).dtype.is_floating_point else 3, dtype=t(1).dtype)],
    **dict.fromkeys(("half", "bfloat16", "float", "double", "long"), _conversions),
    "nn.functional.nll_loss": _class_loss,
    "nn.functional.cross_entropy": lambda t: [
        *_class_loss(t),
        _call(t(7, 5), torch.tensor([0, 4, 1, 1, 3, 2, 4]), label_smoothing=0.2, ignore_index=1),
    ],
    **dict.fromkeys(
        ("nn.functional.smooth_l1_loss", "nn.functional.huber_loss"),
        lambda t: [
            _call(t(7, 5), t(7, 5), **{name: value}, reduction=how)
            for name in ("beta", "delta")
            for value in (0.0, 0.3, 2.5)
            for how in ("none", "mean")
        ],
    ),
    **{
        f"nn.functional.interpolate.{mode}": _interpolated(mode, rank)
        for mode, rank in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2), ("nearest", 2))
    },
    **dict.fromkeys(("nn.functional.grid_sample",), _grid_samples),
    "native_layer_norm": lambda t: [_call(t(4, 7), (7,), weight, t(7), 1e-3) for weight in (None, t(7))],
    "cumsum": lambda t: [_call(_wide(t, 67), 0), _call(_wide(t, 5, 13), 1)],
    "bernoulli": lambda t: [_call(t(2003), p) for p in (0.25, 0.9)],
    "prod": lambda t: [_call(t(0, 3)), _call(t(3, 0), -1), _call(t(0, 3), 0, True)],
    "cumprod": lambda t: [_call(t(67, low=0.9, high=1.2), 0), _call(t(17, 17, low=0.9, high=1.2), 0)],
    **dict.fromkeys(("triu", "tril"), _triangles),
    "masked_fill": _masked,
    "where": lambda t: [
        _call(torch.tensor([True, False, False, True, True]), t(5, 5), t(5, 5)),
        _call(torch.tensor([True, False, False, True, True])[:, None], t(5, 1), t(5)),
        _call(torch.arange(5 * 67).reshape(5, 67) % 3 == 0, t(5, 67), t(5, 67)),
    ],
    "nn.functional.scaled_dot_product_attention": _attention,
    "nn.functional.avg_pool2d": _pooled,
    "nn.functional.max_pool2d": _max_pooled,
    "nn.functional.unfold": lambda t: [_call(t(2, 3, 9, 8), (3, 2), (2, 1), (1, 2), (1, 2))],
    "nn.functional.fold": lambda t: [_call(t(2, 18, 30), (9, 8), (3, 2), (2, 1), (1, 0), (1, 2))],
    **{f"nn.functional.conv{rank}d": _convolved(rank) for rank in (1, 2, 3)},
    **{f"nn.functional.conv_transpose{rank}d": _convolved(rank, transposed=True) for rank in (1, 2, 3)},
    "index_select": lambda t: [_call(t(300, 3), 0, _indices(41)), _call(t(3, 300), 1, _indices(41))],
    "gather": lambda t: [
        _call(t(300, 5), 0, _indices(41, 3)),
        _call(t(7, 300), 1, _indices(3, 41)),
        _call(t(5, 6, 7), 1, _indices(3, 2, 5, rows=6)),
        _call(t(5, 6, 7), 1, _indices(3, 6, 2, rows=6)),
    ],
    "take": lambda t: [_call(t(20, 30), _indices(41, rows=600) - 300)],
    "take_along_dim": lambda t: [_call(t(300, 5), _indices(41, 5), 0)],
    "__getitem__": lambda t: [
        _call(t(300, 5), (_indices(41) - 150,)),
        _call(t(5, 300), (slice(None), _indices(41) - 150)),
        _call(t(5, 6, 7), (torch.tensor([-1, 0, -5]), slice(1, None, 2), torch.tensor([-7, 6, -1]))),
    ],
    "index_put": lambda t: [
        _call(t(300, 3), (_unique_indices(41) - 150,), t(41, 3)),
        _call(t(300, 3), (_indices(41) - 150,), t(41, 3), accumulate=True),
    ],
    "index_add": lambda t: [_call(t(300, 3), 0, _indices(41), t(41, 3)), _call(t(3, 300), 1, _indices(41), t(3, 41))],
    "index_copy": lambda t: [_call(t(300, 3), 0, _unique_indices(41), t(41, 3))],
    "index_fill": lambda t: [_call(t(300, 3), 0, _unique_indices(41), 1)],
    "scatter": _scattered,
    "scatter_add": lambda t: [*_scattered(t), _call(t(300, 3), 0, _indices(41, 3), t(43, 4))],
    **{f"scatter_reduce.{how}": _reduced(how) for how in ("sum", "mean", "amax", "amin", "prod")},
    "nn.functional.embedding": _embedded,
    "nn.functional.ctc_loss": _ctc,
    "nn.functional.binary_cross_entropy": lambda t: [
        _call(t(3, low=value, high=value), torch.tensor([0.0, 1.0, 0.5]).to(t(1).dtype)) for value in (0, 1)
    ],
    "nn.functional.dropout": _dropped,
    "nn.functional.alpha_dropout": _dropped,
    "multinomial": lambda t: [
        _call(torch.tensor([0.05, 0.8, 0.15]).to(t(1).dtype), 2000, True),
        _call(torch.tensor([0.05, 0.8, 0.15]).repeat(500, 1).to(t(1).dtype), 3, False),
    ],
    "nan_to_num": lambda t: [
        _call(torch.tensor([math.nan, math.inf, -math.inf, 1.0]).to(t(1).dtype), nan=1.5, posinf=2.5, neginf=-3.5)
        for _ in range(t(1).dtype.is_floating_point)
    ],
    "histc": lambda t: [_call(torch.arange(-1.0, 6.0).to(t(1).dtype), 4, 0, 4)],
    "cdist": lambda t: [_call(t(7, 5), t(6, 5), p=p) for p in (0.0, 1.0, 3.0, math.inf)],
    "linalg.vector_norm": lambda t: [_call(t(7, 5), p, dim) for p in (0, 1, 3, math.inf, -math.inf) for dim in (0, 1)],
    "mean": lambda t: [_call(t(5, 7, 3), dim) for dim in ((0, 1), (0, 2), (1, 2))],
    "sum": lambda t: [_call(t(5, 7, 3), dim) for dim in ((0, 1), (0, 2), (1, 2))],
    "linalg.solve_triangular": lambda t: [
        _call(t(5, 5), t(5, 3), upper=upper, unitriangular=True) for upper in (False, True)
    ],
    "roll": lambda t: [_call(t(5, 7), (-2, 3), (0, 1)), _call(t(5, 7), -3), _call(t(5, 7), 40, -1)],
}
#: The same for complex numbers only.
COMPLEX: dict[str, Callable[[Maker], Iterable[Call]]] = {
    **dict.fromkeys(("eq", "ne"), lambda t: [_call(a := t(67), torch.complex(a.detach().real, -a.detach().imag))]),
    "div.no_rounding_mode": lambda t: [_call(t(67) * size, t(67) * size) for size in (1e30, 1e-30)],
    **dict.fromkeys(("abs", "reciprocal"), lambda t: [_call(t(67) * size) for size in (1e30, 1e-30)]),
}
#: The same for integers only.
INTEGERS: dict[str, Callable[[Maker], Iterable[Call]]] = {
    "prod": lambda t: [
        _call(torch.tensor([[2**31 + 1, 2**31 - 1], [3, -(2**60) - 1]]), 1) for _ in range(t(1).dtype is torch.int64)
    ],
    "pow": lambda t: [
        _call(torch.arange(-3, 4).to(t(1).dtype)[:, None].repeat(1, 7), torch.arange(-3, 4).to(t(1).dtype))
    ],
    "bincount": lambda t: [_call(_indices(41, rows=9), minlength=n) for n in (0, 5, 20)],
}


def _singular(*more: tuple[int, ...]) -> Callable[[Maker], Iterable[Call]]:
    """Matrices of zeros and a rank of two, alone and as the second of a batch."""

    def calls(t: Maker) -> Iterable[Call]:
        for size in (1, 3):
            matrix = torch.diag(torch.tensor([1.0, -2.0, 0.0][-size:])).to(t(1).dtype)
            yield _call(matrix, *(t(size, *shape) for shape in more))
            batch = torch.stack([torch.eye(size, dtype=matrix.dtype), matrix])
            yield _call(batch, *(t(2, size, *shape) for shape in more))

    return calls


#: Entry -> calls that the CPU refuses because of the values: the device must refuse them, too.
REFUSED: dict[str, Callable[[Maker], Iterable[Call]]] = {
    **dict.fromkeys(("linalg.inv", "linalg.cholesky", "cholesky", "inverse"), _singular()),
    "linalg.solve": _singular((2,)),
}


def refused(name: str, dtype: torch.dtype) -> Iterator[Sample]:
    """Samples of an entry that the CPU refuses."""
    if name in REFUSED and dtype in (torch.float32, torch.float64):
        for first, *rest, _ in REFUSED[name](lambda *shape, low=-2, high=2: torch.ones(shape, dtype=dtype)):
            yield Sample(first, tuple(rest), {}, label="a call that the CPU refuses")


def samples(name: str, dtype: torch.dtype, gradient: bool) -> Iterator[Sample]:
    """Extra samples of an entry."""
    generator = torch.Generator().manual_seed(7)

    def made(*shape: int, low: float = -2, high: float = 2) -> torch.Tensor:
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
        if dtype.is_complex:
            return torch.complex(numbers, numbers.flip(-1)).to(dtype).requires_grad_(gradient)
        if not dtype.is_floating_point:
            return (numbers * 3).round().to(dtype) if dtype is not torch.bool else numbers > 0
        return numbers.to(dtype).requires_grad_(gradient)

    whole = not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool
    for table in (CALLS, *([INTEGERS] if whole else []), *([COMPLEX] if dtype.is_complex else [])):
        if name in table:
            for *arguments, keywords in table[name](made):
                first, *rest = arguments
                yield Sample(first, tuple(rest), dict(keywords), label="extra sample")
