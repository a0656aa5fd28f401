"""Pointwise functions and their gradients: equal to the CPU's, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same

#: Slow: each dtype compiles its own kernels on the first run.
FLOATS = ["float32", "float16", *(pytest.param(d, marks=pytest.mark.slow) for d in ("float64", "bfloat16"))]
#: Name -> function and its domain: any number, positive, within (-1, 1), within (0, 1), or above 1.
FUNCTIONS = {
    "relu6": (F.relu6, "any"),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), "any"),
    "elu": (lambda x: F.elu(x, 0.7), "any"),
    "selu": (F.selu, "any"),
    "celu": (lambda x: F.celu(x, 1.3), "any"),
    "hardswish": (F.hardswish, "any"),
    "hardsigmoid": (F.hardsigmoid, "any"),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 0.8), "any"),
    "softplus": (lambda x: F.softplus(x, 1.5, 3.0), "any"),
    "softsign": (F.softsign, "any"),
    "silu": (F.silu, "any"),
    "swish": (F.swish, "any"),
    "mish": (F.mish, "any"),
    "logsigmoid": (F.log_sigmoid, "any"),
    "hardshrink": (lambda x: F.hardshrink(x, 0.4), "any"),
    "softshrink": (lambda x: F.softshrink(x, 0.4), "any"),
    "tanhshrink": (F.tanhshrink, "any"),
    "thresholded_relu": (lambda x: F.thresholded_relu(x, 0.4), "any"),
    "stanh": (lambda x: paddle.stanh(x, 0.67, 1.7), "any"),
    "square": (paddle.square, "any"),
    "pow": (lambda x: paddle.pow(x, 2.5), "positive"),
    "cube": (lambda x: paddle.pow(x, 3), "any"),
    "reciprocal": (paddle.reciprocal, "positive"),
    "sqrt": (paddle.sqrt, "positive"),
    "rsqrt": (paddle.rsqrt, "positive"),
    "exp": (paddle.exp, "any"),
    "expm1": (paddle.expm1, "any"),
    "log": (paddle.log, "positive"),
    "log2": (paddle.log2, "positive"),
    "log10": (paddle.log10, "positive"),
    "log1p": (paddle.log1p, "positive"),
    "abs": (paddle.abs, "any"),
    "sin": (paddle.sin, "any"),
    "cos": (paddle.cos, "any"),
    "tan": (paddle.tan, "small"),
    "asin": (paddle.asin, "small"),
    "acos": (paddle.acos, "small"),
    "atan": (paddle.atan, "any"),
    "sinh": (paddle.sinh, "any"),
    "cosh": (paddle.cosh, "any"),
    "asinh": (paddle.asinh, "any"),
    "acosh": (paddle.acosh, "large"),
    "atanh": (paddle.atanh, "small"),
    "erf": (paddle.erf, "any"),
    "erfinv": (paddle.erfinv, "small"),
    "lgamma": (paddle.lgamma, "positive"),
    "clip": (lambda x: paddle.clip(x, -0.5, 0.7), "any"),
    "negative": (paddle.neg, "any"),
    "floor": (paddle.floor, "any"),
    "ceil": (paddle.ceil, "any"),
    "round": (paddle.round, "any"),
    "trunc": (paddle.trunc, "any"),
    "sigmoid": (F.sigmoid, "any"),
    "tanh": (paddle.tanh, "any"),
    "gelu": (F.gelu, "any"),
    "logit": (paddle.logit, "unit"),
    "logit_eps": (lambda x: paddle.logit(x, 0.1), "any"),
}
#: Functions that are steep, or differences of similar numbers.
LOOSE = {
    "tanhshrink",
    "tan",
    "atanh",
    "acosh",
    "asin",
    "acos",
    "erfinv",
    "lgamma",
    "sinh",
    "cosh",
    "reciprocal",
    "rsqrt",
}


def numbers(rng, kind, *shape):
    x = rng.standard_normal(shape) * 1.5
    if kind == "positive":
        x = np.abs(x) + 0.3
    elif kind == "small":
        x = np.tanh(x) * 0.9
    elif kind == "unit":
        x = 0.5 + np.tanh(x) * 0.45
    elif kind == "large":
        x = np.abs(x) + 1.3
    return x.astype("float32")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(rng, counted, name, dtype):
    function, kind = FUNCTIONS[name]
    x = numbers(rng, kind, 5, 37)
    bound = {"float32": 1e-5, "float64": 1e-10, "float16": 6e-3, "bfloat16": 5e-2}[dtype]
    if name == "selu" and dtype == "float64":
        bound = 1e-7  # Paddle's kernel multiplies its attributes in float32
    loose = name in LOOSE or name == "selu" or dtype == "bfloat16"
    assert_same(function, x, dtype=dtype, grad=True, tolerance=bound if loose else None)
    assert_on_device()


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4, 5)])
def test_shapes(rng, counted, shape):
    for name in ("relu6", "square", "clip", "leaky_relu", "sqrt", "logit", "logit_eps"):
        function, kind = FUNCTIONS[name]
        assert_same(function, numbers(rng, kind, *shape), grad=0 not in shape)
    assert_on_device()


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38, -2.5, 2.5, 0.5, -0.5], "float32")


@pytest.mark.parametrize(
    "name", ["square", "exp", "expm1", "log", "log1p", "abs", "sin", "floor", "ceil", "round", "tanh", "erf"]
)
def test_special_values(counted, name):
    assert_same(FUNCTIONS[name][0], SPECIAL)
    assert_on_device()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("eps", [None, 0.0, 1e-3, 0.1, 0.5])
def test_logit_at_its_bounds(counted, eps, dtype):
    # Without eps, numbers outside [0, 1] give NaN; with eps, they are clamped and their gradient is 0.
    x = np.array([np.nan, np.inf, -np.inf, -2.5, -0.25, 0.0, 0.0625, 0.25, 0.5, 0.75, 0.9375, 1.0, 1.25], "float32")
    bound = {"float32": 1e-5, "float64": 1e-10, "float16": 6e-3, "bfloat16": 5e-2}[dtype]
    result, grad = assert_same(lambda t: paddle.logit(t, eps), x, dtype=dtype, grad=True, tolerance=bound)
    outside = (x < 0) | (x > 1)
    if eps:
        assert np.isfinite(result[outside]).all()
        assert (grad[outside] == 0).all()
    else:
        assert np.isnan(result[outside]).all()
        assert np.isnan(grad[outside]).all()
    assert_on_device()


@pytest.mark.parametrize("eps", [None, 0.2])
@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[::2, 1::3], lambda x: x[1], lambda x: x[1, 2]])
def test_logit_of_views(rng, counted, view, eps):
    assert_same(lambda x: paddle.logit(view(x), eps), numbers(rng, "unit", 6, 9), grad=True)
    assert_on_device()


def test_logit_of_integers(counted):
    assert_same(paddle.logit, np.array([-1, 0, 1, 2], "int64"))
    assert_same(lambda x: paddle.logit(x, 0.1), np.array([-1, 0, 1, 2], "int32"))
    assert_on_device()


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not", "sign"])
def test_predicates_and_sign(rng, counted, name):
    assert_same(getattr(paddle, name), SPECIAL)
    assert_same(getattr(paddle, name), rng.integers(-3, 3, (4, 5)).astype("int64"))
    assert_on_device()


def test_rounding_to_decimals(rng, counted):
    for decimals in (0, 2, -1):
        assert_same(lambda x, d=decimals: paddle.round(x, d), (rng.standard_normal((4, 9)) * 30).astype("float32"))
    assert_same(paddle.round, np.arange(-4, 4, 0.5).astype("float32"))
    assert_on_device()


WHOLE = ["int32", "int64"]
BINARY_WHOLE = {
    "floor_divide": paddle.floor_divide,
    "remainder": paddle.remainder,
    "maximum": paddle.maximum,
    "minimum": paddle.minimum,
    "bitwise_and": paddle.bitwise_and,
    "bitwise_or": paddle.bitwise_or,
    "bitwise_xor": paddle.bitwise_xor,
    "logical_and": paddle.logical_and,
    "logical_or": paddle.logical_or,
    "logical_xor": paddle.logical_xor,
}


@pytest.mark.parametrize("dtype", WHOLE)
@pytest.mark.parametrize("name", BINARY_WHOLE)
def test_integers(rng, counted, name, dtype):
    x, y = rng.integers(-20, 20, (2, 3, 17)).astype(dtype)
    y[y == 0] = 3
    assert_same(BINARY_WHOLE[name], x, y)
    assert_same(BINARY_WHOLE[name], x, y[0])
    assert_on_device()


@pytest.mark.parametrize("dtype", ["int32", "int64", "bool", "uint8"])
def test_bitwise_not(rng, counted, dtype):
    assert_same(paddle.bitwise_not, rng.integers(0, 2 if dtype == "bool" else 100, (3, 9)).astype(dtype))
    assert_on_device()


@pytest.mark.parametrize("dtype", WHOLE)
def test_functions_of_integers(rng, counted, dtype):
    x = rng.integers(-9, 9, (4, 13)).astype(dtype)
    for function in (paddle.abs, paddle.square, paddle.neg, paddle.sign, lambda t: paddle.clip(t, -3, 4)):
        assert_same(function, x)
    assert_same(lambda t: t.pow(2), x)
    assert_on_device()


BINARY = {
    "maximum": (paddle.maximum, "any"),
    "minimum": (paddle.minimum, "any"),
    "fmax": (paddle.fmax, "any"),
    "fmin": (paddle.fmin, "any"),
    "pow": (paddle.pow, "positive"),
    "atan2": (paddle.atan2, "any"),
    "remainder": (paddle.remainder, "positive"),
    "floor_divide": (paddle.floor_divide, "positive"),
}
SHAPES = {"alike": ((4, 9), (4, 9)), "row": ((4, 9), (9,)), "both": ((3, 1, 5), (4, 1)), "number": ((3, 2), ())}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(rng, counted, name, shapes):
    function, kind = BINARY[name]
    if name == "atan2" and shapes != "alike":
        pytest.skip("Paddle's kernel requires equal shapes")
    x, y = (numbers(rng, kind, *shape) for shape in SHAPES[shapes])
    assert_same(function, x, y, grad=name != "floor_divide", tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["maximum", "minimum", "pow"])
def test_binary_functions_in_other_dtypes(rng, counted, name, dtype):
    function, kind = BINARY[name]
    x, y = (numbers(rng, kind, 4, 9) for _ in range(2))
    assert_same(
        function, x, y, dtype=dtype, grad=True, tolerance={"float64": 1e-11, "float16": 5e-3, "bfloat16": 5e-2}[dtype]
    )
    assert_on_device()


def test_ties(counted):
    x = np.array([1.0, 2.0, 3.0, np.inf], "float32")
    y = np.array([1.0, 5.0, 2.0, np.inf], "float32")
    for function in (paddle.maximum, paddle.minimum, paddle.fmax, paddle.fmin):
        assert_same(function, x, y, grad=True)
    assert_same(lambda t: paddle.clip(t, 1.0, 3.0), x[:3], grad=True)
    assert_same(F.relu6, np.array([-1.0, 0.0, 6.0, 7.0], "float32"), grad=True)
    assert_same(F.hardswish, np.array([-3.0, 0.0, 3.0], "float32"), grad=True)
    assert_on_device()


def test_where_and_masked_fill(rng, counted):
    c = rng.random((4, 9)) < 0.5
    x, y = (numbers(rng, "any", 4, 9) for _ in range(2))
    assert_same(paddle.where, c, x, y, grad=False)
    assert_same(lambda a, b: paddle.where(paddle.to_tensor(c), a, b), x, y, grad=True)
    assert_same(lambda a, b: paddle.where(paddle.to_tensor(c), a, b), x, y[:1], grad=True)
    assert_same(lambda a: paddle.masked_fill(a, paddle.to_tensor(c), 2.5), x, grad=True)
    assert_on_device()


def test_lerp(rng, counted):
    x, y, w = (numbers(rng, "any", 4, 9) for _ in range(3))
    assert_same(lambda a, b: paddle.lerp(a, b, 0.3), x, y, grad=True)
    assert_same(lambda a, b: paddle.lerp(a, b, paddle.to_tensor(w)), x, y, grad=True)
    assert_on_device()


def test_in_place(rng):
    for name in ("exp_", "sqrt_", "reciprocal_", "ceil_", "floor_", "round_", "rsqrt_"):
        assert_same(lambda x, n=name: getattr(x.clone(), n)(), numbers(rng, "positive", 4, 5))
    assert_same(lambda x: F.leaky_relu_(x.clone(), 0.2), numbers(rng, "any", 4, 5))
