"""The plug-in's kernels. test_python_kernels.py tests overrides of them."""

from __future__ import annotations

import functools
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import hardpoint

close = functools.partial(torch.testing.assert_close, check_device=False, equal_nan=True)
exactly = functools.partial(close, rtol=0, atol=0)

REAL = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)
COMPLEX = (torch.complex64, torch.complex128)
FLOAT = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
BINARY = {"add": torch.add, "mul": torch.mul}


def values(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(
            shape, generator=generator, dtype=torch.complex128 if dtype.is_complex else torch.float64
        ).to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 11, shape, generator=generator).to(dtype)


def tiers(name: str) -> dict[str, int]:
    return hardpoint.counters().get(f"aten::{name}", {})


# ---- Pointwise


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", REAL + COMPLEX, ids=str)
def test_binary_dtypes(name, dtype):
    a, b = values(dtype, 5, 7), values(dtype, 5, 7, seed=1)
    close(BINARY[name](a.sim(), b.sim()), BINARY[name](a, b))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16], ids=str)
def test_binary_is_served_by_the_vendor(name, dtype, counted):
    a = values(dtype, 5, 7).sim()
    BINARY[name](a, a)
    assert tiers(f"{name}.Tensor") == {"vendor": 1}


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t(),
    "step": lambda t: t[::2, ::3],
    "row": lambda t: t[2],
    "column": lambda t: t[:, 2:3],
    "expanded": lambda t: t[:1].expand(9, 9),
    "scalar": lambda t: t[1, 2],
    "empty": lambda t: t[:0],
    "offset": lambda t: t[1:, 1:],
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_binary_layouts(name, left, right):
    a, b = values(torch.float32, 9, 9), values(torch.float32, 9, 9, seed=1)
    x, y = LAYOUTS[left](a), LAYOUTS[right](b)
    try:
        expected = BINARY[name](x, y)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            BINARY[name](LAYOUTS[left](a.sim()), LAYOUTS[right](b.sim()))
        return
    made = BINARY[name](LAYOUTS[left](a.sim()), LAYOUTS[right](b.sim()))
    exactly(made, expected, check_stride=True)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", REAL + COMPLEX[:1], ids=str)
@pytest.mark.parametrize(
    "right", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64], ids=str
)
def test_promotion(name, left, right):
    a, b = values(left, 4), values(right, 4, seed=1)
    close(BINARY[name](a.sim(), b.sim()), BINARY[name](a, b))
    # A 0-dim tensor has lower priority in type promotion.
    close(BINARY[name](a.sim(), b[0].sim()), BINARY[name](a, b[0]))
    close(BINARY[name](a.sim(), b[0]), BINARY[name](a, b[0]))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", REAL + COMPLEX[:1], ids=str)
@pytest.mark.parametrize("scalar", [2, 2.5, True, 1j, float("nan"), float("inf"), -3], ids=str)
def test_python_scalars(name, dtype, scalar):
    if dtype.is_complex and scalar == float("inf"):
        scalar = 5  # on the CPU, alpha * inf is inf + nan*j even for alpha = 1
    a = values(dtype, 3, 2)
    close(BINARY[name](a.sim(), scalar), BINARY[name](a, scalar))


@pytest.mark.parametrize("alpha", [2, -0.5, 0, 1e4, float("inf"), float("nan")], ids=str)
@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_add_alpha(alpha, dtype):
    a, b = values(dtype, 5), values(dtype, 5, seed=1)
    close(torch.add(a.sim(), b.sim(), alpha=alpha), torch.add(a, b, alpha=alpha))
    close(torch.sub(a.sim(), b.sim(), alpha=alpha), torch.sub(a, b, alpha=alpha))


@pytest.mark.parametrize("scalar", [7, -7, 2.5], ids=str)
@pytest.mark.parametrize("dtype", [*FLOAT, torch.int32, torch.int64], ids=str)
def test_remainder_of_a_number(dtype, scalar, counted):
    divisors = torch.tensor([3, -3, 1, 5, -4]).to(dtype)
    exactly(scalar % divisors.sim(), scalar % divisors)
    assert all("cpu" not in tiers for tiers in counted().values())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8], ids=str)
def test_add_alpha_of_integers(dtype):
    a, b = values(dtype, 5), values(dtype, 5, seed=1)
    exactly(torch.add(a.sim(), b.sim(), alpha=3), torch.add(a, b, alpha=3))


@pytest.mark.parametrize(
    ("dtype", "alpha"),
    [(torch.int64, 1.5), (torch.float32, 1j), (torch.float32, True), (torch.int32, True), (torch.bool, 2.0)],
    ids=str,
)
def test_wrong_alpha(dtype, alpha):
    a = values(dtype, 3)
    with pytest.raises(RuntimeError) as expected:
        torch.add(a, a, alpha=alpha)
    with pytest.raises(RuntimeError) as raised:
        torch.add(a.sim(), a.sim(), alpha=alpha)
    assert str(raised.value) == str(expected.value)


def test_big_integers_stay_exact():
    big = torch.tensor([2**62 + 1, -(2**62) - 3, 2**53 + 1])
    exactly(big.sim() + 1, big + 1)
    exactly(big.sim() + big.sim(), big + big)
    exactly(torch.zeros(2, dtype=torch.int64, device="sim").fill_(2**62 + 1), torch.tensor([2**62 + 1] * 2))


@pytest.mark.parametrize("dtype", [d for d in REAL if d != torch.bool], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "step", "empty", "scalar", "expanded"])
def test_relu(dtype, layout):
    a = values(dtype, 9, 9)
    if dtype.is_floating_point:
        a[0, 0] = float("nan")
    exactly(torch.relu(LAYOUTS[layout](a.sim())), torch.relu(LAYOUTS[layout](a)))


def test_relu_of_special_values():
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, -1e-40, 1e-40])
    exactly(x.sim().relu(), x.relu())


def test_relu_of_bool_is_refused():
    with pytest.raises(RuntimeError, match="Boolean inputs not supported for relu"):
        torch.relu(torch.ones(2, dtype=torch.bool))
    with pytest.raises(RuntimeError, match="Boolean inputs not supported for relu"):
        torch.relu(torch.ones(2, dtype=torch.bool, device="sim"))


add_relu = torch.ops.aten._add_relu


def added_and_clamped(a, b, alpha=1):
    # torch's CPU kernel lacks these dtypes. The device computes 16-bit floats in float32, and rounds once.
    if a.dtype in (torch.float16, torch.bfloat16):
        return torch.add(a.float(), b.float(), alpha=alpha).relu().to(a.dtype)
    if a.dtype == torch.uint8:
        return torch.add(a, b, alpha=alpha)
    return add_relu.Tensor(a, b, alpha=alpha)


@pytest.mark.parametrize("alpha", [1, 3, -2], ids=str)
@pytest.mark.parametrize("dtype", [d for d in REAL if d != torch.bool], ids=str)
def test_add_relu(dtype, alpha, counted):
    a, b = values(dtype, 9, 9), values(dtype, 9, 9, seed=1)
    if dtype.is_signed:
        b = b - 4
    made = add_relu.Tensor(a.sim(), b.sim(), alpha=alpha)
    assert tiers("_add_relu.Tensor") == {"portable": 1}
    close(made, added_and_clamped(a, b, alpha))


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", ["contiguous", "transposed", "step", "row", "scalar", "empty"])
def test_add_relu_layouts(left, right):
    a, b = values(torch.float32, 9, 9), values(torch.float32, 9, 9, seed=1)
    x, y = LAYOUTS[left](a), LAYOUTS[right](b)
    try:
        expected = added_and_clamped(x, y, 0.5)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=re.escape(str(error))):
            add_relu.Tensor(LAYOUTS[left](a.sim()), LAYOUTS[right](b.sim()), alpha=0.5)
        return
    close(add_relu.Tensor(LAYOUTS[left](a.sim()), LAYOUTS[right](b.sim()), alpha=0.5), expected, check_stride=True)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "step", "row", "column", "offset", "scalar", "empty"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32], ids=str)
def test_add_relu_in_place_and_out(layout, dtype, counted):
    a, b = values(dtype, 9, 9), values(dtype, 9, 9, seed=1) - 3
    expected, base, out = a.clone(), a.sim(), torch.zeros(9, 9, dtype=dtype, device="sim")
    view, other = LAYOUTS[layout](base), LAYOUTS[layout](b.sim())
    result = added_and_clamped(LAYOUTS[layout](a), LAYOUTS[layout](b), 2)
    target = LAYOUTS[layout](out)
    assert add_relu.out(view, other, alpha=2, out=target) is target
    close(target, result)
    assert torch.ops.aten._add_relu_.Tensor(view, other, alpha=2) is view
    LAYOUTS[layout](expected).copy_(result)
    close(base, expected)
    served = {} if result.numel() == 0 else {"portable": 1}
    assert tiers("_add_relu.out") == tiers("_add_relu_.Tensor") == served


def test_add_relu_resizes_and_converts():
    a, b = values(torch.float32, 4, 5), values(torch.float32, 5, seed=1)
    close(add_relu.out(a.sim(), b.sim(), out=torch.empty(0, device="sim")), added_and_clamped(a, b))
    wide = torch.empty(4, 5, dtype=torch.float64, device="sim")
    close(add_relu.out(a.sim(), b.sim(), out=wide), added_and_clamped(a, b).double())
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Int"):
        torch.ops.aten._add_relu_.Tensor(torch.ones(5, dtype=torch.int32, device="sim"), b.sim())


@pytest.mark.parametrize("left", [torch.int32, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("right", [torch.int64, torch.float32, torch.float64], ids=str)
def test_add_relu_promotes(left, right):
    a, b = values(left, 9), values(right, 9, seed=1)
    close(add_relu.Tensor(a.sim(), b.sim()), added_and_clamped(a, b))
    # A 0-dim tensor has lower priority in type promotion, and may be on the host.
    close(add_relu.Tensor(a.sim(), b[0].sim()), added_and_clamped(a, b[0]))
    close(add_relu.Tensor(a.sim(), b[0]), added_and_clamped(a, b[0]))


def test_add_relu_wraps_small_integers():
    a = torch.tensor([100, -100, 127, -128, 60], dtype=torch.int8)
    exactly(add_relu.Tensor(a.sim(), a.sim()), added_and_clamped(a, a))
    a = a.to(torch.int16) * 300
    exactly(add_relu.Tensor(a.sim(), a.sim()), added_and_clamped(a, a))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_add_relu_of_special_values(dtype):
    # The reference is the composition: the CPU kernel drops NaN in part of a tensor and turns infinity into the
    # largest number.
    x = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, -1e-40, 2.5, -2.5], dtype=dtype)
    a, b = x[:, None], x[None, :]
    exactly(add_relu.Tensor(a.sim(), b.sim()), (a + b).relu())


@pytest.mark.parametrize("dtype", [torch.bool, torch.complex64], ids=str)
def test_add_relu_of_unsupported_dtypes(dtype):
    a = values(dtype, 3)
    with pytest.raises(RuntimeError, match="Unsupported datatype for add_relu"):
        add_relu.Tensor(a, a)
    with pytest.raises(RuntimeError, match="Unsupported datatype for add_relu"):
        add_relu.Tensor(a.sim(), a.sim())


# ---- In place


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "step", "row", "column", "offset", "scalar", "empty"])
@pytest.mark.parametrize(
    "change", [lambda t: t.add_(1.5), lambda t: t.mul_(t), lambda t: t.relu_(), lambda t: t.zero_()]
)
def test_in_place_on_views(layout, change):
    expected, base = values(torch.float32, 9, 9), values(torch.float32, 9, 9).sim()
    change(LAYOUTS[layout](expected))
    view = LAYOUTS[layout](base)
    assert change(view) is view
    exactly(base, expected)


def test_in_place_broadcasts_the_other_operand():
    expected, x = torch.ones(3, 4), torch.ones(3, 4, device="sim")
    exactly(x.add_(torch.arange(4, device="sim")), expected.add_(torch.arange(4)))
    exactly(x.mul_(torch.arange(3.0, device="sim")[:, None]), expected.mul_(torch.arange(3.0)[:, None]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda d: torch.ones(4, device=d).add_(torch.ones(3, 4, device=d)),
        lambda d: torch.ones(2, dtype=torch.int32, device=d).add_(1.5),
        lambda d: torch.ones(2, dtype=torch.int32, device=d).mul_(torch.ones(2, device=d)),
        lambda d: torch.ones(2, dtype=torch.bool, device=d).add_(1),
        lambda d: torch.ones(1, device=d).expand(3).add_(1),
        lambda d: torch.ones(1, device=d).expand(3).add_(torch.ones(3, device=d)),
        lambda d: torch.ones(1, device=d).expand(3).relu_(),
        lambda d: (lambda t: t[1:].add_(t[:-1]))(torch.ones(4, device=d)),
        lambda d: torch.add(
            torch.ones(2, device=d), torch.ones(2, device=d), out=torch.ones(2, device=d, dtype=torch.int32)
        ),
        lambda d: (lambda t: torch.add(t[1:], 1, out=t[:-1]))(torch.ones(4, device=d)),
        lambda d: (lambda t: torch.mul(t[1:], t[1:], out=t[:-1]))(torch.ones(4, device=d)),
        lambda d: torch.add(torch.ones(3, device=d), 1, out=torch.ones(1, device=d).expand(3)),
        lambda d: torch.ones(2, dtype=torch.uint8, device=d).fill_(300),
        lambda d: torch.ones(2, dtype=torch.int8, device=d).fill_(-300),
        lambda d: torch.ones(2, device=d).fill_(1j),
        lambda d: torch.ones(2, device=d).fill_(torch.ones(2, device=d)),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(2, 3, device=d)),
        lambda d: torch.mm(torch.ones(2, device=d), torch.ones(2, device=d)),
        lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(3, 4, 5, device=d)),
        lambda d: torch.mm(torch.ones(2, 3, device=d), torch.ones(3, 2, device=d, dtype=torch.float64)),
        lambda d: torch.mm(
            torch.ones(2, 3, device=d), torch.ones(3, 2, device=d), out=torch.empty(0, device=d).double()
        ),
        lambda d: torch.add(torch.ones(2, device=d), torch.ones(3, device=d)),
    ],
)
def test_errors_equal_the_cpus(wrong):
    with pytest.raises(RuntimeError) as expected:
        wrong("cpu")
    with pytest.raises(RuntimeError) as raised:
        wrong("sim")
    assert str(raised.value).split("\n")[0].lower() == str(expected.value).split("\n")[0].lower()


# ---- out=


@pytest.mark.parametrize("name", BINARY)
def test_out(name):
    a, b = values(torch.float32, 3, 4), values(torch.float32, 3, 4, seed=1)
    out = torch.empty(3, 4, device="sim")
    assert BINARY[name](a.sim(), b.sim(), out=out) is out
    exactly(out, BINARY[name](a, b))


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("out_dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("in_dtype", [torch.float32, torch.int32, torch.uint8], ids=str)
def test_out_of_a_wider_dtype(name, in_dtype, out_dtype):
    a = values(in_dtype, 3, 4)
    out, expected = torch.empty(3, 4, dtype=out_dtype, device="sim"), torch.empty(3, 4, dtype=out_dtype)
    exactly(BINARY[name](a.sim(), a.sim(), out=out), BINARY[name](a, a, out=expected))


@pytest.mark.parametrize(
    "call",
    [
        lambda t, out: torch.add(t, t, out=out),
        lambda t, out: torch.mul(t, 2, out=out),
        lambda t, out: torch.mm(t, t, out=out),
    ],
)
def test_out_is_resized(call):
    a = values(torch.float32, 4, 4)
    out = torch.empty(0, device="sim")
    call(a.sim(), out)
    close(out, call(a, torch.empty(0)))
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        out = call(a.sim(), torch.ones(2, device="sim"))
    close(out, call(a, torch.empty(0)))


@pytest.mark.parametrize("view", [lambda t: t[:, ::2], lambda t: t[:4].t()[:8], lambda t: t[4:8, 2:6].t()])
@pytest.mark.parametrize(
    "call",
    [lambda a, b, out: torch.add(a, b, out=out), lambda a, b, out: torch.mm(a[:, :3], b[:3, : out.shape[1]], out=out)],
)
def test_out_is_a_view(view, call):
    expected, base = torch.zeros(8, 8), torch.zeros(8, 8, device="sim")
    shape = view(expected).shape
    rows, columns = shape
    a, b = values(torch.float32, 8, 8)[:rows, :columns], values(torch.float32, 8, 8, seed=1)[:rows, :columns]
    if a.shape[1] < 3 or b.shape[0] < 3:
        pytest.fail("the shapes of this test are too small")
    call(a, b, view(expected))
    call(a.sim(), b.sim(), view(base))
    close(base, expected)


def test_out_may_be_an_input():
    a, b = values(torch.float32, 9), values(torch.float32, 9, seed=1)
    x = a.sim()
    torch.add(x, b.sim(), out=x)
    exactly(x, a + b)
    y = b.sim()
    torch.add(a.sim(), y, alpha=3, out=y)
    close(y, torch.add(a, b, alpha=3))


# ---- Fill


@pytest.mark.parametrize(
    "dtype", [*REAL, *COMPLEX, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn], ids=str
)
@pytest.mark.parametrize("value", [0, 1, 3, True], ids=str)
def test_fill(dtype, value):
    exactly(torch.empty(7, dtype=dtype, device="sim").fill_(value), torch.empty(7, dtype=dtype).fill_(value))
    exactly(torch.full((2, 3), value, dtype=dtype, device="sim"), torch.full((2, 3), value, dtype=dtype))


@pytest.mark.parametrize("value", [2.5, -0.0, float("inf"), float("nan"), 1e-40], ids=str)
@pytest.mark.parametrize("dtype", FLOAT, ids=str)
def test_fill_with_floats(dtype, value):
    exactly(torch.empty(3, dtype=dtype, device="sim").fill_(value), torch.empty(3, dtype=dtype).fill_(value))


def test_fill_of_an_expanded_tensor():
    x = torch.zeros(2, 1, device="sim")
    x.expand(2, 5).fill_(3)
    assert x.tolist() == [[3], [3]]
    x[:1].expand(4, 1).zero_()
    assert x.tolist() == [[0], [3]]


def test_fill_with_tensors():
    for value in (torch.tensor(4), torch.tensor(4, device="sim"), torch.tensor(4.0, device="sim")):
        assert torch.zeros(2, device="sim").fill_(value).tolist() == [4, 4]
    exactly(torch.zeros(2, dtype=torch.complex64, device="sim").fill_(1 - 2j), torch.tensor([1 - 2j] * 2))


@pytest.mark.parametrize(
    "make", [lambda d: torch.ones(3, 4, device=d), lambda d: torch.arange(12, device=d).reshape(3, 4).t()]
)
def test_zero(make, counted):
    x = make("sim")
    x.zero_()
    assert x.eq(0).all()
    assert tiers("zero_") == {"vendor": 1}


def test_fill_of_a_conjugate_view():
    x = torch.zeros(3, dtype=torch.complex64, device="sim")
    x.conj().fill_(1 + 2j)
    assert x.tolist() == [1 - 2j] * 3


# ---- Matrix products


@pytest.mark.parametrize("dtype", [*FLOAT, torch.int32, torch.int64, torch.uint8, *COMPLEX], ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 3, 4), (1, 1, 1), (17, 33, 9), (64, 65, 66), (5, 0, 4), (0, 3, 4), (3, 4, 0)], ids=str
)
def test_mm(dtype, shape):
    m, k, n = shape
    a, b = values(dtype, m, k), values(dtype, k, n, seed=1)
    rough = {torch.float16: 1e-2, torch.bfloat16: 5e-2}.get(dtype, 1e-5)
    close(torch.mm(a.sim(), b.sim()), torch.mm(a, b), rtol=rough, atol=rough * max(k, 1) ** 0.5)


@pytest.mark.parametrize(
    "left", [lambda t: t, lambda t: t.mT, lambda t: t[..., ::2, :], lambda t: t[..., :1, :1].expand(t.shape)]
)
@pytest.mark.parametrize("right", [lambda t: t, lambda t: t.mT, lambda t: t[..., :, 1:]])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_matmul_layouts(left, right, batch):
    a, b = values(torch.float64, *batch, 6, 6), values(torch.float64, *batch, 6, 6, seed=1)
    close(left(a.sim()) @ right(b.sim()), left(a) @ right(b))


@pytest.mark.parametrize("shape", [(3, 2, 4, 5), (1, 7, 1, 2), (4, 2, 0, 3), (0, 2, 3, 4)], ids=str)
def test_bmm(shape):
    batch, m, k, n = shape
    a, b = values(torch.float32, batch, m, k), values(torch.float32, batch, k, n, seed=1)
    close(torch.bmm(a.sim(), b.sim()), torch.bmm(a, b))


def test_matmul_broadcasts():
    a, b = values(torch.float32, 2, 1, 3, 4), values(torch.float32, 5, 4, 2)
    close(a.sim() @ b.sim(), a @ b)
    close(a.sim()[0, 0] @ b.sim()[0, :, 0], a[0, 0] @ b[0, :, 0])
    close(torch.dot(a.sim().flatten(), a.sim().flatten()), torch.dot(a.flatten(), a.flatten()))


def test_mm_of_conjugates():
    a, b = values(torch.complex64, 3, 4), values(torch.complex64, 3, 4, seed=1)
    close(a.sim().mH @ b.sim(), a.mH @ b)
    close(a.sim() @ b.sim().mH, a @ b.mH)


def test_mm_is_served_by_the_vendor(counted):
    a = values(torch.float32, 4, 4).sim()
    a @ a
    torch.bmm(a[None], a[None])
    assert tiers("mm") == {"vendor": 1}
    assert tiers("bmm") == {"vendor": 1}


def test_linear_layers():
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    x = values(torch.float32, 4, 5)
    expected = model(x).detach()
    close(model.sim()(x.sim()).detach(), expected)


# ---- Backward


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a + b,
        lambda a, b: torch.add(a, b, alpha=2.5),
        lambda a, b: a * b,
        lambda a, b: a @ b.t(),
        lambda a, b: (a @ b.t()).relu(),
        lambda a, b: torch.bmm(a[None], b.t()[None]),
        lambda a, b: a * b[0] + a[0],
        lambda a, b: a.clone().mul_(b).add_(a),
    ],
)
def test_backward(function):
    gradients = []
    for device in ("cpu", "sim"):
        a = values(torch.float32, 4, 5).to(device).requires_grad_()
        b = values(torch.float32, 4, 5, seed=1).to(device).requires_grad_()
        function(a, b).sin().sum().backward()
        gradients.append((a.grad, b.grad))
    for mine, theirs in zip(gradients[1], gradients[0], strict=True):
        assert mine.device.type == "sim"
        close(mine, theirs)


# ---- Generated shapes


@st.composite
def broadcastable(draw):
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    shapes = []
    for _ in range(2):
        kept = shape[draw(st.integers(0, len(shape))) :]
        shapes.append([draw(st.sampled_from([n, 1])) for n in kept])
    return shapes


@settings(max_examples=120, deadline=None)
@given(
    shapes=broadcastable(),
    name=st.sampled_from(sorted(BINARY)),
    dtypes=st.tuples(*[st.sampled_from(REAL)] * 2),
    flips=st.tuples(st.booleans(), st.booleans()),
)
def test_broadcasting_of_generated_shapes(shapes, name, dtypes, flips):
    a, b = (values(d, *s, seed=i) for i, (d, s) in enumerate(zip(dtypes, shapes, strict=True)))
    a, b = (t.permute(tuple(reversed(range(t.dim())))) if flip else t for t, flip in zip((a, b), flips, strict=True))
    try:
        expected = BINARY[name](a, b)
    except RuntimeError:
        with pytest.raises(RuntimeError, match="must match"):
            BINARY[name](a.sim(), b.sim())
        return
    close(BINARY[name](a.sim(), b.sim()), expected)


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(*[st.integers(0, 20)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.int32]),
)
def test_mm_of_generated_shapes(sizes, transposed, dtype):
    m, k, n = sizes
    a = values(dtype, k, m).t() if transposed[0] else values(dtype, m, k)
    b = values(dtype, n, k, seed=1).t() if transposed[1] else values(dtype, k, n, seed=1)
    close(a.sim() @ b.sim(), a @ b)
