"""Mapped kernels: results and gradients against the CPU, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same, numbers

BINARY = {"add": paddle.add, "subtract": paddle.subtract, "multiply": paddle.multiply, "divide": paddle.divide}
SHAPES = {
    "alike": ((3, 5), (3, 5)),
    "row": ((3, 5), (5,)),
    "column": ((3, 5), (3, 1)),
    "both": ((3, 1, 5), (4, 1)),
    "number": ((2, 3), ()),
    "large": ((70, 1000), (1000,)),
    "no dimensions": ((), ()),
    "empty": ((0, 3), (3,)),
}
UNARY = {
    "relu": F.relu,
    "sigmoid": F.sigmoid,
    "tanh": paddle.tanh,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate=True),
    "scale": lambda x: paddle.scale(x, 2.5, -0.5),
    "bias first": lambda x: paddle.scale(x, 2.5, -0.5, bias_after_scale=False),
    "exp": paddle.exp,
    "abs": paddle.abs,
    "sqrt of abs": lambda x: paddle.sqrt(paddle.abs(x) + 0.1),
}
COMPARISONS = ["equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal"]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic(rng, counted, name, shapes):
    x, y = numbers(rng, *SHAPES[shapes])
    # Divisors near zero.
    assert_same(BINARY[name], x, y, grad=True, tolerance=1e-5 if name == "divide" else None)
    if shapes != "empty":
        assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_in_other_dtypes(rng, name, dtype):
    x, y = numbers(rng, (3, 5), (5,))
    y = np.sign(y) * (np.abs(y) + 0.5).astype("float32")
    assert_same(BINARY[name], x, y, dtype=dtype, grad=True)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(rng, counted, name, dtype):
    assert_same(BINARY[name], *(rng.integers(-50, 50, (2, 3, 5)).astype(dtype)))
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_functions(rng, counted, name, dtype):
    (x,) = numbers(rng, (4, 33))
    assert_same(UNARY[name], x, dtype=dtype)
    assert_on_device()


@pytest.mark.parametrize("name", ["relu", "sigmoid", "tanh", "gelu", "gelu by tanh"])
def test_gradients_of_functions(rng, counted, name):
    assert_same(UNARY[name], *numbers(rng, (4, 33)), grad=True)
    assert_on_device()


def test_special_values(counted):
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 3e38], "float32")
    for name in ("tanh", "sigmoid", "exp", "abs", "scale"):
        assert_same(UNARY[name], x)
    assert_same(UNARY["relu"], x[1:])  # relu of NaN is NaN, as for other activations; Paddle's CPU kernel returns 0
    assert np.isnan(F.relu(paddle.to_tensor(x)).numpy()[0])
    for function in BINARY.values():
        assert_same(function, x, x[::-1].copy())
    assert_on_device()


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(rng, counted, name):
    x, y = rng.integers(0, 4, (2, 3, 50)).astype("float32")
    assert_same(getattr(paddle, name), x, y)
    assert_same(getattr(paddle, name), x.astype("int64"), y.astype("int64"))
    assert_same(lambda a, b: paddle.where(getattr(paddle, name)(a, b), a, -b), x, y)
    assert_on_device()


CREATED = {
    "full": lambda dtype: paddle.full([2, 3], 3, dtype),
    "full_like": lambda dtype: paddle.full_like(paddle.zeros([3, 2], dtype), 1),
    "ones": lambda dtype: paddle.ones([4], dtype),
    "no dimensions": lambda dtype: paddle.full([], 2, dtype),
    "empty": lambda dtype: paddle.zeros([0, 3], dtype),
}


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "int32", "int64", "uint8", "bool", "complex64"]
)
@pytest.mark.parametrize("name", CREATED)
def test_creation(counted, name, dtype):
    assert_same(lambda: CREATED[name](dtype))
    if name != "empty":
        assert_on_device()


@pytest.mark.parametrize("to", ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("given", ["float32", "float16", "int64", "bool"])
def test_cast(rng, counted, given, to):
    data = (rng.random((3, 40)) * 100).astype(given)
    assert_same(lambda x: x.astype(to), data)
    assert_on_device()


PRODUCTS = {
    "matrices": ((4, 5), (5, 3)),
    "vectors": ((5,), (5,)),
    "vector on the left": ((5,), (5, 3)),
    "vector on the right": ((4, 5), (5,)),
    "rows and a matrix": ((2, 3, 4, 5), (5, 6)),
    "batches": ((2, 3, 4, 5), (2, 3, 5, 6)),
    "broadcast left": ((4, 5), (3, 5, 6)),
    "broadcast both": ((2, 1, 4, 5), (1, 3, 5, 6)),
    "a batch and a vector": ((3, 4, 5), (5,)),
}


def transposed(shape, flag):
    return (*shape[:-2], shape[-1], shape[-2]) if flag and len(shape) > 1 else shape


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_matmul(rng, counted, name, flags):
    if any(flag and len(shape) == 1 for shape, flag in zip(PRODUCTS[name], flags, strict=True)):
        flags = (False, False)  # Paddle's own gradient kernel rejects a transposed vector
    shapes = [transposed(shape, flag) for shape, flag in zip(PRODUCTS[name], flags, strict=True)]
    assert_same(lambda x, y: paddle.matmul(x, y, *flags), *numbers(rng, *shapes), grad=True)
    assert_on_device()


def test_matmul_of_batches_of_different_rank(rng):
    """Paddle infers the batch of the longer operand only; its CPU resizes the result."""
    a, b = numbers(rng, (2, 1, 3, 4), (3, 4, 2))
    x, y = (paddle.to_tensor(each, stop_gradient=False) for each in (a, b))
    out = paddle.matmul(x, y)
    np.testing.assert_allclose(out.numpy(), a @ b, rtol=1e-5, atol=1e-6)
    out.sum().backward()
    ones = np.ones((2, 3, 3, 2), "float32")
    np.testing.assert_allclose(x.grad.numpy(), (ones @ b.swapaxes(1, 2)).sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(y.grad.numpy(), (a.swapaxes(2, 3) @ ones).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_matmul_in_other_dtypes(rng, dtype):
    assert_same(paddle.matmul, *numbers(rng, (3, 8, 16), (16, 8)), dtype=dtype, grad=True)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax(rng, counted, function, axis):
    # Gradients are differences of similar numbers, a hundred times larger than the result.
    assert_same(lambda x: function(x, axis=axis), *numbers(rng, (6, 7, 20)), grad=True, tolerance=2e-4)
    assert_on_device()


def test_sums_of_integers_and_booleans(rng, counted):
    assert_same(lambda x: paddle.sum(x, 1), rng.integers(-9, 9, (4, 50)).astype("int32"))
    assert_same(lambda x: paddle.sum(x), rng.random((4, 50)) < 0.5)
    assert_same(lambda x: paddle.sum(x, 0, dtype="float64"), *numbers(rng, (4, 50)))
    assert_on_device()
