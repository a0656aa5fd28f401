"""Reductions, norms and running totals, with their gradients: as on the CPU, and not there."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from both import same, served_by_the_device

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
    same(lambda t: REDUCTIONS[name](t, **HOW[how]), x, grad=True, tolerance=2e-5)
    served_by_the_device()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "amin", "logsumexp", "prod"])
def test_other_dtypes(rng, counted, name, dtype):
    x = np.exp(numbers(rng, 4, 30) * 0.1).astype("float32")
    bound = {"float64": 1e-12, "float16": 1e-2, "bfloat16": 5e-2}[dtype]
    same(lambda t: REDUCTIONS[name](t, axis=1), x, dtype=dtype, grad=True, tolerance=bound)
    served_by_the_device()


def test_shapes(rng, counted):
    for name in ("sum", "mean", "max", "amin", "prod"):
        same(REDUCTIONS[name], numbers(rng), grad=True)
        same(REDUCTIONS[name], numbers(rng, 1), grad=True)
    served_by_the_device()


def test_nothing_to_reduce(rng):
    for name in ("sum", "mean"):
        same(lambda t, n=name: REDUCTIONS[n](t, axis=0), numbers(rng, 0, 3))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers(rng, counted, dtype):
    x = rng.integers(-4, 5, (3, 4, 5)).astype(dtype)
    for name in ("sum", "max", "min", "amax", "amin", "prod"):
        same(lambda t, n=name: REDUCTIONS[n](t, axis=1), x)
    same(lambda t: paddle.cumsum(t, 1), x)
    served_by_the_device()


def test_truth(rng, counted):
    x = rng.random((4, 5, 6)) < 0.7
    for how in HOW.values():
        same(lambda t, h=how: paddle.any(t, **h), x)
        same(lambda t, h=how: paddle.all(t, **h), x)
    served_by_the_device()


def test_ties_share(counted):
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]], "float32")
    for function in (paddle.max, paddle.min, paddle.amax, paddle.amin):
        same(lambda t, f=function: f(t, axis=1), x, grad=True)
    served_by_the_device()


def test_special_values(counted):
    x = np.array([[np.inf, 1.0], [-np.inf, -np.inf], [-np.inf, 2.0], [3e38, 3e38]], "float32")
    for name in ("sum", "max", "min"):
        same(lambda t, n=name: REDUCTIONS[n](t, axis=1), x)
    # Of infinities alone, Paddle's CPU finds no number.
    found = paddle.logsumexp(paddle.to_tensor(x), axis=1).numpy()
    np.testing.assert_allclose(found, [np.inf, -np.inf, 2.0, 3e38], rtol=1e-6)
    served_by_the_device()


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
    same(lambda t: paddle.norm(t, **NORMS[name]), numbers(rng, 5, 6, 7), grad=True, tolerance=1e-5)
    served_by_the_device()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_running_sums(rng, counted, axis, dtype):
    bound = {"float32": 1e-5, "float64": 1e-12, "float16": 1e-2}[dtype]
    same(lambda t: paddle.cumsum(t, axis), numbers(rng, 4, 5, 6), dtype=dtype, grad=True, tolerance=bound)
    served_by_the_device()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_from_either_side(rng, counted, exclusive, reverse):
    same(lambda t: paddle._C_ops.cumsum(t, 1, False, exclusive, reverse), numbers(rng, 4, 7), grad=True)
    same(lambda t: paddle._C_ops.cumprod(t, 1, exclusive, reverse), numbers(rng, 4, 7))
    served_by_the_device()
