"""Layers of networks: results and gradients against the CPU, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import arrays, assert_on_device, assert_same, numbers

NARROW = ["float16", "bfloat16"]
DTYPES = ["float32", "float64", *NARROW]


# ---- Convolutions

CONVOLUTIONS = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "strides": ((2, 3, 9, 8), (4, 3, 3, 2), {"stride": (2, 1), "padding": 1}),
    "dilation": ((1, 4, 11, 11), (6, 2, 3, 3), {"dilation": 2, "groups": 2, "padding": (2, 1)}),
    "depthwise": ((2, 6, 8, 8), (6, 1, 3, 3), {"groups": 6, "padding": 1}),
    "two for each": ((2, 6, 8, 8), (12, 1, 3, 3), {"groups": 6, "stride": 2}),
    "same": ((2, 3, 9, 8), (4, 3, 4, 2), {"padding": "SAME", "stride": 2}),
    "same, ignoring dilation": ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": "SAME"}),
    "valid": ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": "VALID"}),
    "uneven": ((2, 3, 9, 8), (4, 3, 3, 3), {"padding": [0, 2, 1, 0]}),
    "pointwise": ((2, 8, 5, 5), (16, 8, 1, 1), {}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(rng, counted, name):
    image, weight, how = CONVOLUTIONS[name]
    assert_same(lambda x, w: F.conv2d(x, w, **how), *numbers(rng, image, weight), grad=True, tolerance=1e-5)
    last = (image[0], *image[2:], image[1])
    assert_same(
        lambda x, w: F.conv2d(x, w, data_format="NHWC", **how), *numbers(rng, last, weight), grad=True, tolerance=1e-5
    )
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", *NARROW])
@pytest.mark.parametrize("name", ["strides", "depthwise", "uneven"])
def test_convolutions_in_other_dtypes(rng, counted, name, dtype):
    image, weight, how = CONVOLUTIONS[name]
    # Inputs and gradients are rounded too.
    tolerance = {"float64": 1e-12, "float16": 4e-3, "bfloat16": 4e-2}[dtype]
    assert_same(
        lambda x, w: F.conv2d(x, w, **how), *numbers(rng, image, weight), dtype=dtype, grad=True, tolerance=tolerance
    )
    assert_on_device()


def test_convolutions_in_other_dimensions(rng, counted):
    x, w, b = numbers(rng, (2, 4, 5, 6, 7), (6, 2, 2, 3, 3), (6,))
    assert_same(
        lambda x, w, b: F.conv3d(x, w, b, stride=(1, 2, 1), padding=1, groups=2), x, w, b, grad=True, tolerance=1e-5
    )
    assert_same(lambda x, w: F.conv3d(x, w, padding=[0, 1, 1, 1, 2, 0], groups=2), x, w, grad=True, tolerance=1e-5)
    assert_on_device()
    x, w, b = numbers(rng, (2, 4, 15), (6, 4, 3), (6,))
    assert_same(lambda x, w, b: F.conv1d(x, w, b, padding=1, stride=2), x, w, b, grad=True, tolerance=1e-5)


def test_empty_batch(rng):
    assert_same(lambda x, w: F.conv2d(x, w), *numbers(rng, (0, 3, 8, 8), (4, 3, 3, 3)))
    assert_same(lambda x: F.max_pool2d(x, 2), *numbers(rng, (0, 3, 8, 8)))


TRANSPOSED = {
    "plain": ((2, 3, 5, 6), (3, 4, 3, 3), {}),
    "strides": ((2, 3, 5, 6), (3, 4, 3, 2), {"stride": 2, "padding": 1, "output_padding": 1}),
    "size": ((2, 3, 5, 6), (3, 4, 3, 3), {"stride": 2, "padding": 1, "output_size": [10, 11]}),
    "groups": ((2, 4, 5, 6), (4, 3, 3, 3), {"groups": 2, "dilation": 2, "padding": 1}),
    "depthwise": ((2, 4, 5, 6), (4, 1, 3, 3), {"groups": 4, "stride": 2}),
    "same": ((2, 3, 5, 6), (3, 4, 3, 3), {"padding": "SAME", "stride": 2}),
    "uneven": ((2, 3, 5, 6), (3, 4, 3, 3), {"padding": [0, 1, 1, 2], "stride": 2}),
}


@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolutions(rng, counted, name):
    image, weight, how = TRANSPOSED[name]
    assert_same(lambda x, w: F.conv2d_transpose(x, w, **how), *numbers(rng, image, weight), grad=True, tolerance=1e-5)
    assert_on_device()


def test_transposed_convolutions_in_three_dimensions(rng, counted):
    x, w = numbers(rng, (2, 3, 3, 4, 5), (3, 2, 2, 3, 3))
    assert_same(lambda x, w: F.conv3d_transpose(x, w, stride=2, padding=1), x, w, grad=True, tolerance=1e-5)
    assert_on_device()


# ---- Pooling

POOLED = {
    "max": lambda x: F.max_pool2d(x, 2),
    "max, overlapping": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max, ceil": lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True),
    "max, same": lambda x: F.max_pool2d(x, 3, 2, "SAME"),
    "max, uneven": lambda x: F.max_pool2d(x, 3, 2, [0, 1, 1, 2]),
    "max, adaptive": lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average, exclusive": lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=True),
    "average, inclusive": lambda x: F.avg_pool2d(x, 3, 2, 1, exclusive=False),
    "average, ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, exclusive=True),
    "average, inclusive, ceil": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, exclusive=False),
    "average, uneven": lambda x: F.avg_pool2d(x, 3, 2, [0, 1, 1, 2], exclusive=False),
    "average, adaptive": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "average of all": lambda x: F.adaptive_avg_pool2d(x, 1),
}


@pytest.mark.parametrize("name", POOLED)
def test_pooling(rng, counted, name):
    assert_same(POOLED[name], *numbers(rng, (2, 3, 9, 10)), grad=True)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", *NARROW])
@pytest.mark.parametrize("name", ["max, overlapping", "average, inclusive", "average, adaptive"])
def test_pooling_in_other_dtypes(rng, counted, name, dtype):
    (x,) = numbers(rng, (2, 3, 9, 10))
    if name.startswith("max"):
        x = rng.permutation(x.size).reshape(x.shape).astype("float32")  # exact except for bfloat16, without ties
    # On the CPU, Paddle multiplies gradients of averages by a float32 factor.
    tolerance = 1e-7 if dtype == "float64" else None
    grad = not (name.startswith("max") and dtype == "bfloat16")
    assert_same(POOLED[name], x, dtype=dtype, grad=grad, tolerance=tolerance)
    assert_on_device()


def test_pooling_with_indices(rng, counted):
    x = rng.permutation(2 * 3 * 9 * 10).reshape(2, 3, 9, 10).astype("float32")
    assert_same(lambda x: F.max_pool2d(x, 3, 2, 1, return_mask=True), x, grad=True)
    assert_same(lambda x: F.adaptive_max_pool2d(x, (3, 4), return_mask=True), x, grad=True)
    y = rng.permutation(2 * 3 * 4 * 5 * 6).reshape(2, 3, 4, 5, 6).astype("float32")
    assert_same(lambda x: F.max_pool3d(x, 2, return_mask=True), y, grad=True)
    assert_same(lambda x: F.max_pool3d(x, 3, 2, 1), y, grad=True)
    assert_same(lambda x: F.avg_pool3d(x, 3, 2, 1), y, grad=True)
    assert_on_device()


# ---- Normalization


def batch_norm(training, **how):
    def function(x, weight, bias, mean, variance):
        mean, variance = mean.detach() * 1.0, variance.detach().abs() + 0.5
        y = F.batch_norm(x, mean, variance, weight, bias, training=training, momentum=0.8, epsilon=1e-3, **how)
        return y, mean, variance

    return function


@pytest.mark.parametrize("shape", [(5, 3), (4, 3, 7), (2, 3, 6, 5), (2, 3, 2, 3, 4), (3, 1, 4, 4)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(rng, counted, training, shape):
    inputs = numbers(rng, shape, *[(shape[1],)] * 4)
    assert_same(batch_norm(training), *inputs, grad=True, tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_with_channels_last(rng, counted, training):
    inputs = numbers(rng, (2, 6, 5, 3), *[(3,)] * 4)
    assert_same(batch_norm(training, data_format="NHWC"), *inputs, grad=True, tolerance=1e-5)
    assert_on_device()


def test_batch_norm_with_global_statistics(rng, counted):
    inputs = numbers(rng, (4, 3, 7), *[(3,)] * 4)
    assert_same(batch_norm(True, use_global_stats=True), *inputs, grad=True, tolerance=1e-5)
    assert_same(batch_norm(False, use_global_stats=False), *inputs, grad=True, tolerance=1e-5)
    assert_on_device()


def test_batch_norm_updates_running_statistics(rng):
    (x,) = numbers(rng, (4, 3, 6, 6))
    found = []
    for device in ("cpu", "sim:0"):
        paddle.set_device(device)
        layer = paddle.nn.BatchNorm2D(3)
        for _ in range(3):
            layer(paddle.to_tensor(x))
        layer.eval()
        found.append(arrays([layer(paddle.to_tensor(x)), layer._mean, layer._variance]))
    for f, e in zip(found[1], found[0], strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)


NORMALIZED = {
    "layer": ((4, 5, 6), (6,), lambda x, w, b: F.layer_norm(x, (6,), w, b)),
    "layer of two": ((4, 5, 6), (30,), lambda x, w, b: F.layer_norm(x, (5, 6), w, b, 1e-3)),
    "layer without weight": ((4, 5, 6), (6,), lambda x, w, b: F.layer_norm(x, (6,))),
    "groups": ((2, 6, 4, 5), (6,), lambda x, w, b: F.group_norm(x, 3, 1e-3, w, b)),
    "instance": ((2, 6, 4, 5), (6,), lambda x, w, b: F.instance_norm(x, None, None, w, b)),
    "instance of lines": ((2, 6, 7), (6,), lambda x, w, b: F.instance_norm(x, None, None, w, b)),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NORMALIZED)
def test_normalization(rng, counted, name, dtype):
    shape, weight, function = NORMALIZED[name]
    # Gradients are differences of similar numbers.
    tolerance = {"float32": 1e-5, "float64": 1e-11, "float16": 1e-2, "bfloat16": 6e-2}[dtype]
    x, w, b, factor = numbers(rng, shape, weight, weight, shape)
    # A random factor: with a nearly linear gradient, almost everything would cancel.
    assert_same(
        lambda x, w, b, f: function(x, w, b) * f.detach(), x, w, b, factor, dtype=dtype, grad=True, tolerance=tolerance
    )
    assert_on_device()


def test_group_norm_without_weight(rng, counted):
    x, factor = numbers(rng, (2, 6, 4, 5), (2, 6, 4, 5))

    # Ones on the CPU, whose gradient without a weight is wrong.
    def function(x, f):
        on_cpu = paddle.get_device() == "cpu"
        weight, bias = (paddle.ones([6]), paddle.zeros([6])) if on_cpu else (None, None)
        return F.group_norm(x, 2, weight=weight, bias=bias) * f.detach()

    assert_same(function, x, factor, grad=True, tolerance=1e-5)
    assert_on_device()


# ---- Dropout


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
def test_dropout(rng, counted, mode, dtype):
    x = paddle.to_tensor(rng.random((200, 300)).astype("float32") + 0.5).astype(dtype)
    x.stop_gradient = False
    paddle.seed(7)
    y = F.dropout(x, 0.3, mode=mode)
    y.sum().backward()
    paddle.seed(7)
    again, other = F.dropout(x, 0.3, mode=mode), F.dropout(x, 0.3, mode=mode)
    assert_on_device()
    given, found, second, third, grad = arrays([x, y, again, other, x.grad])
    kept = found != 0
    assert 0.68 < kept.mean() < 0.72
    scale = 1 / 0.7 if mode == "upscale_in_train" else 1.0
    bound = {"float64": 1e-6, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(found[kept], given[kept] * scale, rtol=bound)
    np.testing.assert_allclose(grad, kept * scale, rtol=bound)
    np.testing.assert_array_equal(found, second)
    assert (found != third).any()


@pytest.mark.parametrize("mode", ["upscale_in_train", "downscale_in_infer"])
def test_dropout_in_inference(rng, counted, mode):
    assert_same(lambda x: F.dropout(x, 0.3, training=False, mode=mode), *numbers(rng, (20, 30)), grad=True)
    assert_same(lambda x: F.dropout(x, 1.0, mode=mode), *numbers(rng, (20, 30)), grad=True)
    assert_on_device()


# ---- Losses


def labels(rng, classes, *shape):
    return rng.integers(0, classes, shape).astype("int64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_cross_entropy(rng, counted, reduction, dtype):
    (x,) = numbers(rng, (8, 10))
    label = labels(rng, 10, 8)
    label[2] = 5
    # 16-bit losses are rounded before summation.
    tolerance = {"float32": 1e-5, "float64": 1e-11, "float16": 4e-3, "bfloat16": 4e-2}[dtype]

    def loss(x, label, **how):
        return F.cross_entropy(x, label, reduction=reduction, **how)

    assert_same(loss, x, label, dtype=dtype, grad=True, tolerance=tolerance)
    assert_same(lambda x, label: loss(x, label, ignore_index=5), x, label, dtype=dtype, grad=True, tolerance=tolerance)
    assert_on_device()


def test_cross_entropy_along_other_axes(rng, counted):
    (x,) = numbers(rng, (2, 6, 3, 4))
    label = labels(rng, 6, 2, 1, 3, 4)
    assert_same(lambda x, y: F.cross_entropy(x, y, axis=1, reduction="none"), x, label, grad=True, tolerance=1e-5)
    assert_same(lambda x, y: F.softmax_with_cross_entropy(x, y, axis=1, return_softmax=True), x, label, tolerance=1e-5)
    assert_same(
        lambda x, y: F.cross_entropy(x, y), x, labels(rng, 4, 2, 6, 3).astype("int32"), grad=True, tolerance=1e-5
    )
    assert_on_device()


def test_cross_entropy_of_distributions(rng, counted):
    (x, y) = numbers(rng, (8, 10), (8, 10))
    y = np.exp(y) / np.exp(y).sum(1, keepdims=True)

    def loss(x, y):
        return F.cross_entropy(x, y.detach(), soft_label=True)

    assert_same(loss, x, y, grad=True, tolerance=1e-5)
    assert_same(
        lambda x, y: F.cross_entropy(x, y.detach(), soft_label=True, axis=0, reduction="none"), x, y, tolerance=1e-5
    )
    assert_on_device()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("shape", [(8, 5), (2, 5, 3, 4)])
def test_nll_loss(rng, counted, shape, reduction):
    x, w = numbers(rng, shape, (5,))
    label = labels(rng, 5, shape[0], *shape[2:])
    label.flat[0] = 1
    w = np.abs(w)
    assert_same(lambda x, y: F.nll_loss(x, y, reduction=reduction), x, label, grad=True)
    # Not compared with the CPU, whose kernel writes out of bounds when a class is ignored.
    given = paddle.to_tensor(x, stop_gradient=False)
    loss = F.nll_loss(given, paddle.to_tensor(label), paddle.to_tensor(w), 1, reduction)
    loss.sum().backward()
    share = w * (np.arange(5) != 1)
    at = np.eye(5, dtype="float32")[label]
    at = (at if x.ndim == 2 else at.transpose(0, 3, 1, 2)) * share.reshape(5, *[1] * (x.ndim - 2))
    total = at.sum() if reduction == "mean" else 1.0
    wanted = -(x * at).sum(1) if reduction == "none" else -(x * at).sum() / total
    np.testing.assert_allclose(loss.numpy(), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(given.grad.numpy(), -at / total, rtol=1e-5, atol=1e-6)
    assert_on_device()


def test_nll_loss_of_an_empty_batch(counted):
    loss = F.nll_loss(paddle.ones([3, 4]), paddle.to_tensor([2, 2, 2]), ignore_index=2)
    assert loss.item() == 0
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_of_pairs(rng, counted, dtype):
    x, y, w = numbers(rng, (6, 7), (6, 7), (7,))
    p, hit = 1 / (1 + np.exp(-x)), (y > 0).astype("float32")
    tolerance = 1e-5 if dtype == "float32" else 1e-11

    def check(function, *inputs):
        assert_same(function, *inputs, dtype=dtype, grad=True, tolerance=tolerance)

    check(lambda p, y: F.binary_cross_entropy(p, y.detach(), reduction="none"), p, hit)
    check(lambda x, y: F.binary_cross_entropy_with_logits(x, y.detach(), reduction="none"), 30 * x, hit)
    check(
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y.detach(), reduction="none", pos_weight=w.detach()),
        x,
        hit,
        np.abs(w),
    )
    # A label between 0 and 1.
    check(
        lambda x, y, w: F.binary_cross_entropy_with_logits(x, y.detach(), reduction="none", pos_weight=w.detach()),
        x,
        p,
        np.abs(w),
    )
    for delta in (0.5, 1.0):
        check(lambda x, y, d=delta: F.smooth_l1_loss(x, y, reduction="none", delta=d), 2 * x, y)
    assert_on_device()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
def test_divergence(rng, counted, reduction, log_target, dtype):
    (x,) = numbers(rng, (4, 7))
    target = rng.random((4, 7)).astype("float32")
    target[0, :3] = 0  # probabilities of 0 contribute nothing
    tolerance = {"float32": 1e-5, "float64": 1e-11, "float16": 5e-3, "bfloat16": 4e-2}[dtype]

    def loss(x, target):
        given = paddle._C_ops.kldiv_loss(x, target.detach(), reduction, log_target)
        return given, F.kl_div(x, target.detach(), reduction, log_target)

    assert_same(loss, x, target, dtype=dtype, grad=True, tolerance=tolerance)
    assert counted()["phi::kldiv_loss"] == {"decomposition": 2}
    assert_on_device()


def test_log_loss(rng, counted):
    p, hit = rng.random((6, 1)).astype("float32"), (rng.random((6, 1)) > 0.5).astype("float32")
    assert_same(lambda p, y: F.log_loss(p, y.detach(), 1e-3), p, hit, grad=True, tolerance=1e-5)
    assert counted()["phi::log_loss"] == counted()["phi::log_loss_grad"] == {"portable": 1}


def test_label_smoothing(rng, counted):
    (x, y) = numbers(rng, (6, 7), (6, 7))
    assert_same(lambda y: F.label_smooth(y, epsilon=0.2), y, grad=True)
    assert_same(
        lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1), x, labels(rng, 7, 6), grad=True, tolerance=1e-5
    )
    assert_on_device()


def test_softmax_of_a_scalar(counted):
    assert_same(F.softmax, np.float32(3), grad=True)
    assert_same(F.log_softmax, np.float32(3), grad=True)
    assert_on_device()


# ---- Attention


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention(rng, counted, dtype):
    q, k, v, mask = numbers(rng, (2, 6, 4, 8), (2, 7, 4, 8), (2, 7, 4, 8), (2, 1, 6, 7))
    # In 16 bits, scores and weights are rounded in between.
    tolerance = {"float32": 1e-5, "float64": 1e-11, "float16": 1e-2, "bfloat16": 8e-2}[dtype]
    attend = F.scaled_dot_product_attention
    assert_same(attend, q, k, v, dtype=dtype, grad=True, tolerance=tolerance)
    assert_same(
        lambda q, k, v, m: attend(q, k, v, m.detach()), q, k, v, mask, dtype=dtype, grad=True, tolerance=tolerance
    )
    assert_on_device()


# ---- Sorting


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_topk_and_order(rng, counted, dtype, axis):
    x = rng.permutation(4 * 9 * 5).reshape(4, 9, 5).astype(dtype)
    grad = dtype.startswith("float")
    for largest in (True, False):
        assert_same(lambda x, most=largest: paddle.topk(x, 3, axis, largest=most), x, grad=grad)
    assert_same(lambda x: paddle.argmax(x, axis), x)
    assert_same(lambda x: paddle.argmin(x, axis, keepdim=True, dtype="int32"), x)
    for descending in (True, False):
        assert_same(lambda x, d=descending: paddle.argsort(x, axis, d), x)
        assert_same(lambda x, d=descending: paddle.sort(x, axis, d), x, grad=grad)
    assert_same(paddle.argmax, x)
    assert_same(lambda x: paddle.argmin(x, keepdim=True), x)
    assert_on_device()


def test_first_of_equal_elements(counted):
    x = np.array([[1, 3, 3, 0], [0, 0, 0, 0]], "float32")
    assert_same(lambda x: paddle.argmax(x, 1), x)
    assert_same(lambda x: paddle.argmin(x, 1), x)
    assert_same(lambda x: paddle.argsort(x, 1, stable=True), x)
    assert_same(lambda x: paddle.argmax(x), np.float32(3))
    assert_on_device()


@pytest.mark.parametrize("k", [1, 3])
def test_accuracy(rng, counted, k):
    x = rng.permutation(20 * 7).reshape(20, 7).astype("float32")
    assert_same(lambda x, y: paddle.metric.accuracy(x, y, k), x, labels(rng, 7, 20, 1))
    assert_on_device()


# ---- Embedding


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", ["int64", "int32"])
@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embedding(rng, counted, padding, index, dtype):
    (weight,) = numbers(rng, (9, 6))
    indices = rng.integers(0, 9, (4, 5)).astype(index)
    indices[0, :3] = 2, 8, 2
    assert_same(lambda i, w: F.embedding(i, w, padding), indices, weight, dtype=dtype, grad=True)
    assert_on_device()


def test_one_hot(rng, counted):
    assert_same(lambda x: F.one_hot(x, 6), rng.integers(0, 6, (4, 5)).astype("int64"))
    assert_same(lambda x: F.one_hot(x, 6), rng.integers(0, 6, (4,)).astype("int32"))
    assert_same(lambda x: F.one_hot(x, 6), np.int64(3))
    assert_on_device()


def test_one_hot_of_labels_of_other_ranks(counted):
    """Paddle's tensor-parallel cross entropy encodes them, and expects zeros."""
    found = F.one_hot(paddle.to_tensor([1, -1, 3, 2]), 3)
    np.testing.assert_array_equal(found.numpy(), np.eye(4, 3)[[1, 3, 3, 2]])
    assert_on_device()


# ---- Resampling and padding

RESAMPLED = {
    "nearest": {"size": (7, 11)},
    "nearest by a factor": {"scale_factor": 2},
    "bilinear": {"size": (7, 11), "mode": "bilinear"},
    "bilinear by a factor": {"scale_factor": (1.5, 2.5), "mode": "bilinear"},
    "bilinear, aligned": {"size": (7, 11), "mode": "bilinear", "align_corners": True},
    "bilinear, smaller": {"size": (2, 3), "mode": "bilinear"},
    "bicubic": {"size": (7, 11), "mode": "bicubic"},
    "bicubic, aligned": {"size": (7, 11), "mode": "bicubic", "align_corners": True},
}


@pytest.mark.parametrize("name", RESAMPLED)
def test_resampling(rng, counted, name):
    assert_same(lambda x: F.interpolate(x, **RESAMPLED[name]), *numbers(rng, (2, 3, 5, 6)), grad=True, tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("shape", [(3, 2, 5, 7), (1, 1, 1, 4), (2, 3, 6, 1)])
def test_affine_grid(rng, counted, shape, aligned):
    (theta,) = numbers(rng, (shape[0], 2, 3))
    assert_same(lambda x: F.affine_grid(x, shape, align_corners=aligned), theta, grad=True, tolerance=1e-5)
    assert counted()["phi::affine_grid"] == counted()["phi::affine_grid_grad"] == {"decomposition": 1}
    assert_on_device()


def test_resampling_in_other_dimensions(rng, counted):
    (x, y) = numbers(rng, (2, 3, 9), (2, 3, 3, 4, 5))
    assert_same(lambda x: F.interpolate(x, [13], mode="linear", data_format="NCW"), x, grad=True, tolerance=1e-5)
    how = {"data_format": "NCDHW"}
    assert_same(lambda x: F.interpolate(x, (5, 6, 7), mode="trilinear", **how), y, grad=True, tolerance=1e-5)
    assert_same(lambda x: F.interpolate(x, (5, 6, 7), **how), y, grad=True)
    assert_on_device()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
def test_padding(rng, counted, mode, dtype):
    (x, y) = numbers(rng, (2, 3, 5, 6), (2, 3, 4, 5, 6))
    value = {"value": 2.5} if mode == "constant" else {}
    assert_same(lambda x: F.pad(x, [1, 2, 3, 0], mode, **value), x, dtype=dtype, grad=True)
    assert_same(lambda x: F.pad(x, [1, 2, 3, 0, 1, 1], mode, data_format="NCDHW", **value), y, dtype=dtype, grad=True)
    assert_on_device()


def test_padding_of_every_dimension(rng, counted):
    (x,) = numbers(rng, (3, 4, 5))
    assert_same(lambda x: F.pad(x, [1, 0, 2, 1, 0, 3], value=-1.0, pad_from_left_axis=True), x, grad=True)
    assert_same(lambda x: F.pad(x, [1, 0, 2, 1, 0, 3], pad_from_left_axis=True), (x * 9).astype("int64"))
    assert_same(lambda x: F.pad(x, [1, 2], data_format="NLC"), x, grad=True)
    assert_on_device()


# ---- CPU tier


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.maxout(x, 2),
        lambda x: F.interpolate(x, (7, 11), mode="bilinear", align_mode=1),
        lambda x: F.pad(x, [1, 1, 1, 1], "circular"),
    ],
)
def test_cpu_tier(rng, function):
    assert_same(function, *numbers(rng, (2, 4, 6, 8)))
