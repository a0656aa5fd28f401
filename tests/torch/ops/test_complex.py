"""Complex dtypes against the CPU: pointwise operators, copies, sums and products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from layouts import VIEWS

import hardpoint

COMPLEX = (torch.complex64, torch.complex128)
Tensor = torch.Tensor


def on_cpu() -> list[str]:
    return [name for name, tiers in hardpoint.counters().items() if "cpu" in tiers]


def numbers(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def check(function: Callable[..., Any], *given: Tensor, **tolerance: float) -> None:
    """Compare with the CPU; nothing may run in the CPU tier."""
    expected = function(*given)
    moved = [t.to("sim") for t in given]
    hardpoint.reset_counters()
    actual = function(*moved)
    assert not on_cpu()
    for a, e in zip(*((r if isinstance(r, tuple) else (r,)) for r in (actual, expected)), strict=True):
        assert a.device.type == "sim"
        assert a.dtype == e.dtype
        torch.testing.assert_close(a.cpu(), e, equal_nan=True, **tolerance)


UNARY = {
    **{
        name: getattr(torch, name)
        for name in (
            *("neg", "conj_physical", "abs", "angle", "sgn", "reciprocal", "square", "sqrt", "rsqrt"),
            *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sinc", "sigmoid", "logical_not"),
            *("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
            *("isnan", "isinf", "isfinite", "isreal", "real", "imag", "nan_to_num"),
        )
    },
    "silu": torch.nn.functional.silu,
    "resolve_conj": lambda t: t.conj().resolve_conj(),
    "imag of a conjugate": lambda t: t.conj().imag + 0,
    "conjugate, transposed": lambda t: t.mH.contiguous(),
    "pow 2": lambda t: t**2,
    "pow -0.5": lambda t: t**-0.5,
    "pow complex": lambda t: t ** (0.3 + 1j),
    "number to the power": lambda t: 2.5**t,
    "with numbers": lambda t: (t + 1j) * (2 - 1j) / 3 - t * 0.5,
    "fill": lambda t: torch.full_like(t, 1 - 2j),
}
BINARY = {
    **{
        name: getattr(torch, name)
        for name in ("add", "sub", "mul", "div", "pow", "eq", "ne", "logical_and", "logical_or", "logical_xor", "lerp")
        if name != "lerp"
    },
    "add, scaled": lambda a, b: torch.add(a, b, alpha=2 - 1j),
    "sub, scaled": lambda a, b: torch.sub(a, b, alpha=0.5j),
    "rsub": lambda a, b: torch.rsub(a, b),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25 + 0.5j),
    "lerp.Tensor": lambda a, b: torch.lerp(a, b, b),
    "where": lambda a, b: torch.where(a.abs() > b.abs(), a, b),
    "addcmul": lambda a, b: torch.addcmul(a, b, b, value=0.5 - 1j),
    "addcdiv": lambda a, b: torch.addcdiv(a, b, b, value=2j),
    "with real": lambda a, b: a * b.real + b.imag,
    "with ints": lambda a, b: a * torch.ones_like(b, dtype=torch.int64) - 3,
}
SHAPES = {**VIEWS, "conjugate": lambda t: t.conj()}


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_of_one_tensor(name: str, dtype: torch.dtype) -> None:
    check(UNARY[name], numbers(7, 33, dtype=dtype))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_tensors(name: str, dtype: torch.dtype) -> None:
    check(BINARY[name], numbers(5, 17, dtype=dtype), numbers(5, 17, dtype=dtype))


@pytest.mark.parametrize("layout", SHAPES)
def test_layouts(layout: str) -> None:
    view = SHAPES[layout]
    base = numbers(6, 6, 5, dtype=torch.complex64)
    a, b = view(base), view(base.to("sim"))
    hardpoint.reset_counters()
    torch.testing.assert_close((b * b).cpu(), a * a)
    torch.testing.assert_close((b - 2j).cpu(), a - 2j)
    torch.testing.assert_close(b.abs().cpu(), a.abs())
    assert torch.equal((b == b).cpu(), a == a)
    torch.testing.assert_close(b.clone().cpu(), a)
    assert not on_cpu()


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_polar_and_complex(dtype: torch.dtype) -> None:
    real = torch.float32 if dtype is torch.complex64 else torch.float64
    radius, angle = torch.rand(4, 9, dtype=real), torch.randn(9, dtype=real)
    check(torch.polar, radius, angle)
    check(torch.complex, radius, angle.expand(4, 9))


def test_outputs_of_another_dtype() -> None:
    x = numbers(40, dtype=torch.complex64)
    moved = x.to("sim")
    for out in (torch.empty(40, dtype=torch.float64), torch.empty(0)):
        hardpoint.reset_counters()
        result = torch.abs(moved, out=out.to("sim"))
        assert not on_cpu()
        torch.testing.assert_close(result.cpu(), torch.abs(x, out=out))
    wide = torch.mul(moved, 2, out=torch.empty(40, dtype=torch.complex128, device="sim"))
    torch.testing.assert_close(wide.cpu(), (x * 2).to(torch.complex128))
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.mul(moved, 2, out=torch.empty(40, device="sim"))


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize(
    "other",
    [torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.int16, torch.bool, *COMPLEX],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_copies(dtype: torch.dtype, other: torch.dtype) -> None:
    x = numbers(5, 6, dtype=dtype).mul(3)
    x.real.abs_()  # converting a negative number to uint8 is undefined
    x[0, 0] = 0
    x[1, 1] = 2j
    for view in SHAPES.values():
        given = view(x[:, :, None].expand(5, 6, 2))
        moved = view(x.to("sim")[:, :, None].expand(5, 6, 2))
        hardpoint.reset_counters()
        there = moved.to(other)
        assert not on_cpu()
        assert torch.equal(there.cpu(), given.to(other))
    real = torch.arange(12).reshape(3, 4).to(other)
    moved = real.to("sim")
    hardpoint.reset_counters()
    there = moved.t().to(dtype)
    assert not on_cpu()
    assert torch.equal(there.cpu(), real.t().to(dtype))


SPECIAL = (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_special_values(dtype: torch.dtype) -> None:
    x = torch.tensor([complex(a, b) for a in SPECIAL for b in SPECIAL], dtype=dtype)
    for name in ("abs", "isnan", "isinf", "nan_to_num", "logical_not", "neg", "conj_physical"):
        check(getattr(torch, name), x)
    check(lambda a: torch.nan_to_num(a, 1.0, 2.0, -3.0), x)
    check(lambda a, b: a == b, x, x.flip(0))
    assert torch.equal(torch.signbit(x.to("sim").neg().imag.cpu()), torch.signbit(-x.imag))


SUMS = {
    "sum": lambda t: t.sum(),
    "sum of rows": lambda t: t.sum(-1),
    "sum of columns, kept": lambda t: t.sum(0, keepdim=True),
    "sum of two": lambda t: t.sum((0, 2)),
    "mean": lambda t: t.mean(),
    "mean of columns": lambda t: t.mean(1),
    "cumsum": lambda t: t.cumsum(1),
    "cumsum, last": lambda t: t.cumsum(-1),
}


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", SUMS)
def test_sums(name: str, dtype: torch.dtype) -> None:
    x = numbers(4, 37, 21, dtype=dtype)
    check(SUMS[name], x)
    check(SUMS[name], x.transpose(0, 2))
    check(SUMS[name], x[:, :0])


PRODUCTS = {
    "mm": lambda a, b, c: a @ b,
    "mm, transposed": lambda a, b, c: b.T @ a.T,
    "mm, conjugate": lambda a, b, c: b.mH @ a.mH,
    "bmm": lambda a, b, c: torch.stack([a, a + 1j]) @ torch.stack([b, b - 1]),
    "addmm": lambda a, b, c: torch.addmm(c, a, b, beta=0.5j, alpha=2 - 1j),
    "addmm, row": lambda a, b, c: torch.addmm(c[0], a, b),
    "addmm, no self": lambda a, b, c: torch.addmm(c, a, b, beta=0, alpha=1j),
    "baddbmm": lambda a, b, c: torch.baddbmm(c[None], a[None], b[None], alpha=1j),
    "mv": lambda a, b, c: a @ b[:, 0],
    "dot": lambda a, b, c: torch.dot(a[0], b[:, 1]),
    "vdot": lambda a, b, c: torch.vdot(a[0], b[:, 1]),
    "addmm_": lambda a, b, c: c.clone().addmm_(a, b, alpha=1j),
}


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str, dtype: torch.dtype) -> None:
    check(PRODUCTS[name], *(numbers(*s, dtype=dtype) for s in ((13, 41), (41, 19), (13, 19))))
    check(PRODUCTS[name], *(numbers(*s, dtype=dtype) for s in ((3, 4), (4, 5), (3, 5))))


@pytest.mark.parametrize(
    "function",
    [
        lambda t: t.sigmoid(),
        lambda t: t.tanh(),
        lambda t: (t * t.conj()).real,
        lambda t: t.abs(),
        lambda t: t.angle(),
        lambda t: t.exp() * t.sin(),
        lambda t: (t @ t.mH).sum(),
        lambda t: t**3 + t.sqrt(),
        lambda t: torch.view_as_real(t).sum(-1),
        lambda t: torch.nn.functional.pad(t, (2, 1), mode="reflect"),
        lambda t: torch.nn.functional.pad(t[None], (2, 1, 1, 3), mode="replicate"),
        lambda t: t.unfold(1, 3, 2).square(),
        lambda t: torch.nn.functional.unfold(t[None, None], (2, 3)).square(),
        lambda t: torch.cumprod(t, 1),
        lambda t: torch.prod(t, 0),
        lambda t: torch.var(t, 1),
        lambda t: torch.std(t),
        lambda t: torch.logcumsumexp(t, 1),
        lambda t: torch.trace(t),
    ],
)
def test_gradients(function: Callable[[Tensor], Tensor]) -> None:
    x = numbers(5, 7, dtype=torch.complex128)
    results = []
    for device in ("cpu", "sim"):
        given = x.to(device).detach().requires_grad_()
        hardpoint.reset_counters()
        result = function(given)
        (gradient,) = torch.autograd.grad(result, given, torch.ones_like(result))
        assert not on_cpu()
        results.append((result.detach().cpu(), gradient.cpu()))
    torch.testing.assert_close(results[1], results[0])


REDUCED = {
    **{
        f"{name}, {sorted(options)}": (lambda t, name=name, options=options: getattr(torch, name)(t, **options))
        for name in ("var", "std", "var_mean", "std_mean")
        for options in ({}, {"dim": 1}, {"dim": (0, 2), "keepdim": True}, {"correction": 0})
    },
    "trace": lambda t: torch.trace(t[0]),
    "any": lambda t: torch.any(t * 0),
    "all": lambda t: torch.all(t, 1),
    "all of a number": lambda t: torch.all(t[0, 0, 0]),
    "prod": lambda t: t[:, :5].prod(1),
    "prod of a number": lambda t: t[0, 0, 0].prod(0),
    "prod of others": lambda t: t.real[0, :4].prod(0, dtype=t.dtype),
    "cumprod": lambda t: t[:, :9].cumprod(1),
    "cumprod, last": lambda t: t[..., :9].cumprod(-1),
    "cumsum of a number": lambda t: t[0, 0, 0].cumsum(0),
    "cumsum of others": lambda t: t.real.cumsum(1, dtype=t.dtype),
    "logcumsumexp": lambda t: (t * 5).logcumsumexp(1),
    "logcumsumexp, last": lambda t: t.logcumsumexp(-1),
}


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", REDUCED)
def test_moments_truth_products_and_scans(name: str, dtype: torch.dtype) -> None:
    x = numbers(11, 37, 21, dtype=dtype)
    # Some of the many sums of exponentials nearly cancel, and the logarithm amplifies their rounding errors.
    loose = {"rtol": 1e-5, "atol": 3e-4} if name.startswith("logcumsumexp") and dtype is torch.complex64 else {}
    check(REDUCED[name], x, **loose)
    check(REDUCED[name], x.transpose(0, 2), **loose)


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_logarithms_of_sums_at_the_edges(dtype: torch.dtype) -> None:
    parts = torch.tensor([-math.inf, math.inf, math.nan, 0.0, 1.0], dtype=dtype.to_real())
    for order in ([0, 0, 4], [4, 1, 4], [1, 1, 4], [3, 2, 4], [0, 4, 3]):
        given = torch.complex(parts[order], torch.zeros(3, dtype=dtype.to_real()))
        check(lambda t: torch.logcumsumexp(t, 0), given)


MADE = {
    "eye": lambda t: torch.eye(5, 7, dtype=t.dtype, device=t.device),
    "linspace": lambda t: torch.linspace(1 + 2j, -3, 9, dtype=t.dtype, device=t.device),
    "linspace, one": lambda t: torch.linspace(1j, 3, 1, dtype=t.dtype, device=t.device),
    "linspace, none": lambda t: torch.linspace(1j, 3, 0, dtype=t.dtype, device=t.device),
    "logspace": lambda t: torch.logspace(1 + 2j, -1, 9, base=3, dtype=t.dtype, device=t.device),
    "halves": lambda t: torch.complex(t.real.half(), t.imag.half()).to(t.dtype),
    "halves and back": lambda t: (t.to(torch.complex32).to(t.dtype), t.real.to(torch.complex32).to(t.dtype)),
    "halves, conjugate": lambda t: t.conj().to(torch.complex32).to(t.dtype),
    "parts of halves": lambda t: t.to(torch.complex32).real.float() + 0,
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
@pytest.mark.parametrize("name", MADE)
def test_sequences_and_halves(name: str, dtype: torch.dtype) -> None:
    check(MADE[name], numbers(4, 6, dtype=dtype))


def test_uniform_numbers(counted: Any) -> None:
    x = torch.empty(20_000, dtype=torch.complex64, device="sim").uniform_(-1, 3).cpu()
    for part in (x.real, x.imag):
        assert part.min() >= -1
        assert part.max() < 3
        assert abs(part.mean() - 1) < 0.05
    assert abs(torch.corrcoef(torch.view_as_real(x).T)[0, 1]) < 0.05
    assert not on_cpu()


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.complex64], ids=str)
def test_gradients_of_dropout_of_other_dtypes(dtype: torch.dtype) -> None:
    grad, mask = torch.testing.make_tensor(5, 7, dtype=dtype, device="cpu"), torch.rand(5, 7) > 0.5
    check(lambda g, m: torch.ops.aten.native_dropout_backward(g, m, 1.5), grad, mask)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 4)], ids=str)
def test_sums_keep_the_parts_apart(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = torch.randn(shape, dtype=dtype)
    for reduce in (torch.sum, torch.mean):
        torch.testing.assert_close(reduce(x.to("sim")).cpu(), reduce(x))
        if shape:
            torch.testing.assert_close(reduce(x.to("sim"), 0, keepdim=True).cpu(), reduce(x, 0, keepdim=True))
