"""Reductions, norms and scans, with gradients: equal to the CPU's, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from comparison import assert_on_device, assert_same

HOW = {
    "all": {},
    "first": {"axis": 0},
    "last": {"axis": -1},
    "two": {"axis": [0, 2]},
    "kept": {"axis": [1], "keepdim": True},
    "all kept": {"keepdim": True},
}
REDUCTIONS = {
    "sum": paddle.sum,
    "mean": paddle.mean,
    "max": paddle.max,
    "min": paddle.min,
    "amax": paddle.amax,
    "amin": paddle.amin,
    "prod": paddle.prod,
    "logsumexp": paddle.logsumexp,
    "std": paddle.std,
    "var": paddle.var,
    "nansum": paddle.nansum,
}


def numbers(rng, *shape):
    return (rng.standard_normal(shape) + 0.1).astype("float32")


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(rng, counted, name, how):
    x = numbers(rng, 5, 6, 70)
    if name == "prod":
        x = np.exp(x * 0.1).astype("float32")
    assert_same(lambda t: REDUCTIONS[name](t, **HOW[how]), x, grad=True, tolerance=2e-5)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "amin", "logsumexp", "prod"])
def test_other_dtypes(rng, counted, name, dtype):
    x = np.exp(numbers(rng, 4, 30) * 0.1).astype("float32")
    bound = {"float64": 1e-12, "float16": 1e-2, "bfloat16": 5e-2}[dtype]
    assert_same(lambda t: REDUCTIONS[name](t, axis=1), x, dtype=dtype, grad=True, tolerance=bound)
    assert_on_device()


def test_shapes(rng, counted):
    for name in ("sum", "mean", "max", "amin", "prod"):
        assert_same(REDUCTIONS[name], numbers(rng), grad=True)
        assert_same(REDUCTIONS[name], numbers(rng, 1), grad=True)
    assert_on_device()


def test_empty_reductions(rng):
    for name in ("sum", "mean"):
        assert_same(lambda t, n=name: REDUCTIONS[n](t, axis=0), numbers(rng, 0, 3))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers(rng, counted, dtype):
    x = rng.integers(-4, 5, (3, 4, 5)).astype(dtype)
    for name in ("sum", "max", "min", "amax", "amin", "prod"):
        assert_same(lambda t, n=name: REDUCTIONS[n](t, axis=1), x)
    assert_same(lambda t: paddle.cumsum(t, 1), x)
    assert_on_device()


def test_booleans(rng, counted):
    x = rng.random((4, 5, 6)) < 0.7
    for how in HOW.values():
        assert_same(lambda t, h=how: paddle.any(t, **h), x)
        assert_same(lambda t, h=how: paddle.all(t, **h), x)
    assert_on_device()


def test_ties_share_the_gradient(counted):
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], "float32")
    for function in (paddle.max, paddle.min, paddle.amax, paddle.amin):
        assert_same(lambda t, f=function: f(t, axis=1), x, grad=True)
    assert_on_device()


def test_special_values(counted):
    x = np.array([[np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0], [3e38, 3e38]], "float32")
    for name in ("sum", "max", "min"):
        assert_same(lambda t, n=name: REDUCTIONS[n](t, axis=1), x)
    # Paddle's CPU kernel returns NaN for rows of infinities.
    found = paddle.logsumexp(paddle.to_tensor(x), axis=1).numpy()
    np.testing.assert_allclose(found, [np.inf, -np.inf, 2.0, 3e38], rtol=1e-6)
    assert_on_device()


NORMS = {
    "euclidean": {"p": 2, "axis": 1},
    "manhattan": {"p": 1, "axis": 1},
    "largest": {"p": np.inf, "axis": 1},
    "smallest": {"p": -np.inf, "axis": 0},
    "cubic": {"p": 3, "axis": -1, "keepdim": True},
    "flat": {"p": 2},
    "frobenius": {"p": "fro", "axis": [0, 1]},
}


@pytest.mark.parametrize("name", NORMS)
def test_norms(rng, counted, name):
    assert_same(lambda t: paddle.norm(t, **NORMS[name]), numbers(rng, 5, 6, 7), grad=True, tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_cumulative_sums(rng, counted, axis, dtype):
    bound = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2}[dtype]
    assert_same(lambda t: paddle.cumsum(t, axis), numbers(rng, 4, 5, 6), dtype=dtype, grad=True, tolerance=bound)
    assert_on_device()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_sums_exclusive_and_reversed(rng, counted, exclusive, reverse):
    assert_same(lambda t: paddle._C_ops.cumsum(t, 1, False, exclusive, reverse), numbers(rng, 4, 7), grad=True)
    assert_same(lambda t: paddle._C_ops.cumprod(t, 1, exclusive, reverse), numbers(rng, 4, 7))
    assert_on_device()
