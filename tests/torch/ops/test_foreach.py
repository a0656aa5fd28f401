"""Foreach operators against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

SHAPES = [(3,), (), (7, 5), (64, 65), (9000,), (0, 3), (2, 3, 4), *[(11,)] * 14]
LOW = (torch.float16, torch.bfloat16)
NUMBERS = [0.5 + 0.1 * k for k in range(len(SHAPES))]


def lists(dtype: torch.dtype) -> list[list[torch.Tensor]]:
    """Three lists of tensors with elements away from 0, valid as divisors and square root arguments."""
    return [[(torch.rand(shape) + 0.5).to(dtype) for shape in SHAPES] for _ in range(3)]


def each(a: Any, *rest: Any) -> list[tuple[Any, ...]]:
    return list(zip(a, *rest, strict=True))


#: Overload -> more arguments, taken from the lists b and c.
CASES: dict[str, Callable[[list[torch.Tensor], list[torch.Tensor]], tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "add.Scalar": lambda b, c: ((1.5,), {}),
    "add.List": lambda b, c: ((b,), {"alpha": 0.3}),
    "add.ScalarList": lambda b, c: ((NUMBERS,), {}),
    "add.Tensor": lambda b, c: ((b[1],), {"alpha": 2.0}),
    "sub.Scalar": lambda b, c: ((1.5,), {}),
    "sub.List": lambda b, c: ((b,), {"alpha": 0.3}),
    "sub.ScalarList": lambda b, c: ((NUMBERS,), {}),
    "mul.Scalar": lambda b, c: ((3,), {}),
    "mul.List": lambda b, c: ((b,), {}),
    "mul.ScalarList": lambda b, c: ((NUMBERS,), {}),
    "mul.Tensor": lambda b, c: ((b[1],), {}),
    "div.Scalar": lambda b, c: ((3,), {}),
    "div.List": lambda b, c: ((b,), {}),
    "div.ScalarList": lambda b, c: ((NUMBERS,), {}),
    "div.Tensor": lambda b, c: ((b[1],), {}),
    "maximum.List": lambda b, c: ((b,), {}),
    "minimum.List": lambda b, c: ((b,), {}),
    "lerp.Scalar": lambda b, c: ((b, 0.3), {}),
    "lerp.List": lambda b, c: ((b, c), {}),
    "lerp.ScalarList": lambda b, c: ((b, NUMBERS), {}),
    "addcmul.Scalar": lambda b, c: ((b, c), {"value": 0.7}),
    "addcmul.ScalarList": lambda b, c: ((b, c, NUMBERS), {}),
    "addcdiv.Scalar": lambda b, c: ((b, c), {"value": 0.7}),
    "addcdiv.ScalarList": lambda b, c: ((b, c, NUMBERS), {}),
    **{name: lambda b, c: ((), {}) for name in ("sqrt", "rsqrt", "reciprocal", "neg", "abs", "exp")},
    "zero": lambda b, c: ((), {}),
    "copy": lambda b, c: ((b,), {}),
}


def call(name: str, inplace: bool, values: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, f"_foreach_{base}{'_' * inplace}")
    function = getattr(packet, overload or "default")
    args, kwargs = CASES[name](values[1], values[2])
    made = function(values[0], *args, **kwargs)
    return values[0] if inplace else made


def to(values: list[list[torch.Tensor]], target: Any) -> list[list[torch.Tensor]]:
    return [[t.to(target) for t in part] for part in values]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *LOW], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_against_the_cpu(name, dtype, inplace, counted):
    if name in ("zero", "copy") and not inplace:
        pytest.skip("torch derives the functional form from the in-place one")
    values = lists(dtype)
    mine = call(name, inplace, to(values, "sim"))
    # 16-bit floats are computed in float32 and rounded once.
    expected = call(name, inplace, to(values, torch.float32) if dtype in LOW else values)
    low = {"rtol": 1e-2, "atol": 1e-3} if dtype is torch.bfloat16 else {}
    for m, e in each(mine, expected):
        assert m.dtype == dtype
        torch.testing.assert_close(m.cpu(), e.to(dtype), **low)
    base, _, overload = name.partition(".")
    operator = f"aten::_foreach_{base}{'_' * inplace}{'.' * bool(overload)}{overload}"
    assert counted()[operator] == {"portable": 1}


@pytest.mark.parametrize("name", ["add.Scalar", "add.List", "addcmul.Scalar"])
@pytest.mark.parametrize("count", [1, 8, 9, 40, 41, 55, 73, 97, 200])
def test_any_number_of_tensors(count, name, counted):
    """Short and long lists use different kernels; long ones need several launches."""
    values = [[torch.rand(17 * k % 31 + 5000 * (k % 7 == 3)) for k in range(count)] for _ in range(3)]
    mine = call(name, False, to(values, "sim"))
    for m, e in each(mine, call(name, False, values)):
        torch.testing.assert_close(m.cpu(), e)
    base, overload = name.split(".")
    assert counted()[f"aten::_foreach_{base}.{overload}"] == {"portable": 1}


def test_nan_goes_through():
    nan = float("nan")
    a, b = [torch.tensor([nan, 1.0, 2.0]).sim()], [torch.tensor([0.0, nan, 1.0]).sim()]
    for function, last in ((torch._foreach_maximum, 2.0), (torch._foreach_minimum, 1.0)):
        result = function(a, b)[0].cpu()
        assert result[:2].isnan().all()
        assert result[2] == last


@pytest.mark.parametrize("inplace", [False, True])
def test_unsupported_lists(inplace):
    """Other layouts, dtypes and mixtures use torch's loop over the tensors."""
    strided = [torch.randn(6, 10)[:, ::2], torch.randn(4, 5).t()]
    other = [torch.randn(6, 5), torch.randn(5, 4)]
    integers = [torch.arange(6), torch.arange(3)]
    for a, b in ((strided, other), (integers, [t + 2 for t in integers]), ([*other, *integers], [*other, *integers])):
        x, y = [t.sim() for t in a], [t.sim() for t in b]
        if inplace:
            a = [t.clone() for t in a]
            torch._foreach_add_(a, b)
            torch._foreach_add_(x, y)
        else:
            a, x = torch._foreach_add(a, b), torch._foreach_add(x, y)
        for m, e in each(x, a):
            torch.testing.assert_close(m.cpu(), e)


def test_layout_is_kept():
    nhwc = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    a = [nhwc.sim(), torch.randn(5, 4).t().sim()]
    for m, e in each(torch._foreach_mul(a, 2.0), a):
        assert m.stride() == e.stride()
        assert torch.equal(m.cpu(), e.cpu() * 2)


@pytest.mark.parametrize("between", [1, 60])
@pytest.mark.parametrize("n", [10, 50_000])
def test_one_tensor_twice(n, between):
    a, others = torch.ones(n, device="sim"), [torch.ones(n, device="sim") for _ in range(between)]
    torch._foreach_add_([a, *others, a], 1.0)
    assert (a == 3).all()
    assert all((other == 2).all() for other in others)


def test_parts_of_one_tensor_in_any_order():
    whole = torch.zeros(50, 3000, device="sim")
    rows = [whole[k * 7 % 50] for k in range(50)]
    torch._foreach_add_(rows, [float(k) for k in range(50)])
    assert torch.equal(whole[[k * 7 % 50 for k in range(50)], 0].cpu(), torch.arange(50.0))
    # Neighbors share elements: the additions must run in order.
    flat = torch.zeros(3010, device="sim")
    torch._foreach_add_([flat[10:], flat[:-10]], 1.0)
    assert torch.equal(flat.cpu(), torch.tensor([1.0] * 10 + [2.0] * 2990 + [1.0] * 10))


def test_wrong_lists():
    for device in ("cpu", "sim"):
        a = [torch.ones(3, device=device)]
        with pytest.raises(RuntimeError, match="same number"):
            torch._foreach_add(a, a * 2)
        with pytest.raises(RuntimeError, match="same number"):
            torch._foreach_add_(a, [1.0, 2.0])


def test_gradients():
    a = [torch.randn(4, device="sim", requires_grad=True) for _ in range(3)]
    sum(t.sum() for t in torch._foreach_mul(a, a)).backward()
    for t in a:
        torch.testing.assert_close(t.grad, 2 * t.detach())


@pytest.mark.parametrize("name", ["add_", "mul_", "sqrt_", "zero_", "copy_", "lerp_"])
def test_writes_are_counted(name: str) -> None:
    """A backward pass that needs the overwritten values must fail."""
    more: dict[str, Any] = {"add_": (1.0,), "mul_": ([torch.ones(3).sim()],), "copy_": ([torch.ones(3).sim()],)}
    more["lerp_"] = ([torch.ones(3).sim()], 0.5)
    x = torch.ones(3).sim().requires_grad_()
    y = x.exp()
    with torch.no_grad():
        getattr(torch, f"_foreach_{name}")([y], *more.get(name, ()))
    assert y._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
