"""Pooling, grid sampling and pixel shuffling of images, channels-last layouts, and activations with weights."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same, numbers

POOLED = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, data_format="NHWC"),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1, data_format="NHWC"),
    "mean with what is around": lambda x: F.avg_pool2d(x, 2, padding=1, exclusive=False, data_format="NHWC"),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 3, "NHWC"),
    "all": lambda x: F.adaptive_avg_pool2d(x, 1, "NHWC"),
}


@pytest.mark.parametrize("name", POOLED)
def test_channels_last_pooling(rng, counted, name):
    assert_same(POOLED[name], *numbers(rng, (2, 7, 8, 3)), grad=True)
    assert_on_device()


def test_3d_pooling(rng, counted):
    (x,) = numbers(rng, (2, 4, 5, 6, 3))
    assert_same(lambda x: F.max_pool3d(x, 2, data_format="NDHWC"), x, grad=True)
    assert_same(lambda x: F.avg_pool3d(x, 2, data_format="NDHWC"), x, grad=True)
    assert_on_device()


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample(rng, counted, mode, padding, align):
    x, grid = numbers(rng, (2, 3, 5, 6), (2, 4, 7, 2))

    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, align)

    assert_same(sample, x, grid, grad=True, tolerance=1e-4)
    assert_on_device()


def test_unfold_and_fold(rng, counted):
    x, columns = numbers(rng, (2, 3, 7, 8), (2, 12, 20))
    assert_same(lambda x: F.unfold(x, 3, 2, 1), x, grad=True)
    assert_same(lambda x: F.unfold(x, [2, 3], 1, [1, 0], [2, 1]), x, grad=True)
    assert_same(lambda c: F.fold(c, [5, 6], 2), columns, grad=True)
    assert_on_device()


def test_pixel_shuffle(rng, counted):
    deep, wide = numbers(rng, (2, 12, 3, 5), (2, 3, 6, 4))
    assert_same(lambda x: F.pixel_shuffle(x, 2), deep, grad=True)
    assert_same(lambda x: F.pixel_unshuffle(x, 2), wide, grad=True)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_gated_activation(rng, counted, dtype):
    x, y = numbers(rng, (3, 4, 8), (3, 4, 8))
    assert_same(F.swiglu, x, y, dtype=dtype, grad=True)
    assert_same(F.swiglu, x, dtype=dtype, grad=True)
    assert_on_device()


def test_prelu(rng, counted):
    x, one, each = numbers(rng, (2, 3, 4, 5), (1,), (3,))
    assert_same(F.prelu, x, one, grad=True, tolerance=1e-5)
    assert_same(F.prelu, x, each, grad=True, tolerance=1e-5)
    assert_same(lambda x, w: F.prelu(x, w, "NHWC"), x.transpose(0, 2, 3, 1).copy(), each, grad=True, tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("right", [True, False])
def test_searchsorted(rng, counted, right):
    edges, rows = np.sort(rng.integers(0, 9, 12)), np.sort(rng.integers(0, 9, (4, 12)))
    values, each = rng.integers(-1, 10, (3, 5)), rng.integers(-1, 10, (4, 5))
    for dtype in ("float32", "int64", "float64"):
        given = [array.astype(dtype) for array in (edges, values, rows, each)]
        assert_same(lambda e, v: paddle.searchsorted(e, v, right=right), *given[:2])
        assert_same(lambda e, v: paddle.searchsorted(e, v, out_int32=True, right=right), *given[2:])
        assert_same(lambda e, v: paddle.bucketize(v, e, right=right), *given[:2])
    assert_on_device()
