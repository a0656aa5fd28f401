"""Sizes that come as tensors, outputs whose shape changes between runs, and dtypes that Paddle infers wrongly."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_same, numbers


def static_results(device: str, build, feeds: list[dict[str, np.ndarray]]) -> list[list[np.ndarray]]:
    """Run one program on several inputs, in the same scope."""
    place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace("sim", 0)
    paddle.enable_static()
    try:
        program, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(program, startup):
            inputs = {}
            for name, x in feeds[0].items():
                varies = any(feed[name].shape != x.shape for feed in feeds)
                inputs[name] = paddle.static.data(name, [-1] * x.ndim if varies else list(x.shape), str(x.dtype))
            inputs["x"].stop_gradient = False
            out = build(**inputs)
            gradients = paddle.static.gradients([out], [inputs["x"]])
            executor = paddle.static.Executor(place)
            executor.run(startup)
            return [executor.run(program, feed=feed, fetch_list=[out, *gradients]) for feed in feeds]
    finally:
        paddle.disable_static()


def assert_same_static(build, feeds: list[dict[str, np.ndarray]]) -> None:
    expected, found = static_results("cpu", build, feeds), static_results("sim", build, feeds)
    for run, right in zip(found, expected, strict=True):
        for f, e in zip(run, right, strict=True):
            assert (f.shape, f.dtype) == (e.shape, e.dtype)
            np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5)  # sums of terms up to 1 that cancel


def images(seed, *sizes: tuple[int, int]) -> list[np.ndarray]:
    return numbers(np.random.default_rng(seed), *((2, 3, *size) for size in sizes))


def test_topk_with_a_tensor_of_k(seed):
    (x,) = numbers(np.random.default_rng(seed), (4, 7))
    assert_same(lambda t: paddle.topk(t, paddle.to_tensor([3]), 1)[0], x, grad=True)
    feeds = [{"x": x, "k": np.array([k], "int32")} for k in (2, 5, 1)]
    assert_same_static(lambda x, k: paddle.topk(x, k, 1)[0], feeds)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_interpolation_to_sizes_in_tensors(seed, mode):
    feeds = [
        {"x": x, "h": np.array([h], "int32"), "w": np.array([w], "int32")}
        for x, h, w in zip(images(seed, (5, 6), (3, 4), (5, 6)), (9, 2, 12), (4, 7, 1), strict=True)
    ]
    assert_same_static(lambda x, h, w: F.interpolate(x, size=[h, w], mode=mode), feeds)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("factor", [0.2, [0.2, 1.5]], ids=["both", "one"])
def test_interpolation_to_a_single_position_takes_the_first(seed, mode, factor):
    (x,) = images(seed, (5, 7))
    assert_same(lambda t: F.interpolate(t, scale_factor=factor, mode=mode), x, grad=True, tolerance=1e-5)


def test_gather_along_an_axis_in_a_tensor(seed):
    (x,) = numbers(np.random.default_rng(seed), (3, 8, 4))
    index = np.array([2, 0, 1, 2], "int32")
    feeds = [{"x": x, "index": index, "axis": np.array([axis], "int32")} for axis in (1, 0, 2)]
    assert_same_static(lambda x, index, axis: paddle.gather(x, index, axis), feeds)


def test_affine_grid_with_a_tensor_of_sizes(seed):
    (theta,) = numbers(np.random.default_rng(seed), (2, 2, 3))
    feeds = [{"x": theta, "shape": np.array([2, 3, h, h + 1], "int32")} for h in (4, 2, 6)]
    assert_same_static(lambda x, shape: F.affine_grid(x, shape), feeds)


def test_an_output_that_grows_between_runs(seed):
    """The CPU tier must not look at the old, smaller memory through the new shape."""
    rng = np.random.default_rng(seed)
    feeds = [{"x": numbers(rng, (n, n))[0]} for n in (2, 9, 3, 12)]
    assert_same_static(lambda x: paddle.linalg.slogdet(x), feeds)
    assert_same_static(lambda x: paddle.linalg.det(x), feeds)


def test_gradients_of_instance_norm_have_the_dtype_of_the_parameters(seed):
    rng = np.random.default_rng(seed)
    x, weight, bias = numbers(rng, (2, 3, 5, 4), (3,), (3,))

    def normalized(t, w, b):
        return F.instance_norm(t, weight=w, bias=b)

    found = assert_same(normalized, x, weight, bias, dtype="float64", grad=True, tolerance=1e-9)
    assert [array.dtype for array in found] == [np.float64] * 4


@pytest.mark.parametrize("function", [paddle.exp, paddle.log, paddle.tanh, F.sigmoid, F.silu, paddle.square])
def test_gradients_of_complex_functions_are_conjugated(seed, function):
    rng = np.random.default_rng(seed)
    given = (rng.uniform(0.5, 2, (3, 4)) + 1j * rng.uniform(0.5, 1, (3, 4))).astype("complex64")
    results = {}
    for device in ("cpu", "sim:0"):
        paddle.set_device(device)
        x = paddle.to_tensor(given, stop_gradient=False)
        out = function(x)
        out.backward(paddle.to_tensor(given[::-1].copy()))
        results[device] = out.numpy(), x.grad.numpy()
    for f, e in zip(results["sim:0"], results["cpu"], strict=True):
        np.testing.assert_allclose(f, e, rtol=2e-5, atol=1e-5)
