"""Windows and samples of images, channels that come last, and activations with weights."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from both import numbers, same, served_by_the_device

POOLED = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, data_format="NHWC"),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1, data_format="NHWC"),
    "mean with what is around": lambda x: F.avg_pool2d(x, 2, padding=1, exclusive=False, data_format="NHWC"),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 3, "NHWC"),
    "all": lambda x: F.adaptive_avg_pool2d(x, 1, "NHWC"),
}


@pytest.mark.parametrize("name", POOLED)
def test_pooling_of_channels_that_come_last(rng, counted, name):
    same(POOLED[name], *numbers(rng, (2, 7, 8, 3)), grad=True)
    served_by_the_device()


def test_pooling_of_volumes(rng, counted):
    (x,) = numbers(rng, (2, 4, 5, 6, 3))
    same(lambda x: F.max_pool3d(x, 2, data_format="NDHWC"), x, grad=True)
    same(lambda x: F.avg_pool3d(x, 2, data_format="NDHWC"), x, grad=True)
    served_by_the_device()


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grids(rng, counted, mode, padding, align):
    x, grid = numbers(rng, (2, 3, 5, 6), (2, 4, 7, 2))

    def sample(x, grid):
        return F.grid_sample(x, grid, mode, padding, align)

    same(sample, x, grid, grad=True, tolerance=1e-4)
    served_by_the_device()


def test_windows(rng, counted):
    x, columns = numbers(rng, (2, 3, 7, 8), (2, 12, 20))
    same(lambda x: F.unfold(x, 3, 2, 1), x, grad=True)
    same(lambda x: F.unfold(x, [2, 3], 1, [1, 0], [2, 1]), x, grad=True)
    same(lambda c: F.fold(c, [5, 6], 2), columns, grad=True)
    served_by_the_device()


def test_pixels(rng, counted):
    deep, wide = numbers(rng, (2, 12, 3, 5), (2, 3, 6, 4))
    same(lambda x: F.pixel_shuffle(x, 2), deep, grad=True)
    same(lambda x: F.pixel_unshuffle(x, 2), wide, grad=True)
    served_by_the_device()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_gated_activation(rng, counted, dtype):
    x, y = numbers(rng, (3, 4, 8), (3, 4, 8))
    same(F.swiglu, x, y, dtype=dtype, grad=True)
    same(F.swiglu, x, dtype=dtype, grad=True)
    served_by_the_device()


def test_slopes_as_weights(rng, counted):
    x, one, each = numbers(rng, (2, 3, 4, 5), (1,), (3,))
    same(F.prelu, x, one, grad=True, tolerance=1e-5)
    same(F.prelu, x, each, grad=True, tolerance=1e-5)
    same(lambda x, w: F.prelu(x, w, "NHWC"), x.transpose(0, 2, 3, 1).copy(), each, grad=True, tolerance=1e-5)
    served_by_the_device()


@pytest.mark.parametrize("right", [True, False])
def test_places_in_what_is_sorted(rng, counted, right):
    edges, rows = np.sort(rng.integers(0, 9, 12)), np.sort(rng.integers(0, 9, (4, 12)))
    values, each = rng.integers(-1, 10, (3, 5)), rng.integers(-1, 10, (4, 5))
    for dtype in ("float32", "int64", "float64"):
        given = [array.astype(dtype) for array in (edges, values, rows, each)]
        same(lambda e, v: paddle.searchsorted(e, v, right=right), *given[:2])
        same(lambda e, v: paddle.searchsorted(e, v, out_int32=True, right=right), *given[2:])
        same(lambda e, v: paddle.bucketize(v, e, right=right), *given[:2])
    served_by_the_device()
