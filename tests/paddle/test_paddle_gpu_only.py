"""Kernels that Paddle implements for GPUs only: the reference is composed of other operators."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same, numbers
from paddle.incubate.nn import memory_efficient_attention as memory_efficient


def on_cpu() -> bool:
    return paddle.get_device() == "cpu"


def rms_norm(x, weight=None, shape=(8,), eps=1e-5):
    """The kernel on the device, a composition on the CPU."""
    if not on_cpu():
        out, scale = F.rms_norm(x, list(shape), weight, eps)
        return out, scale.reshape(x.shape[: x.ndim - len(shape)])
    axes = list(range(x.ndim - len(shape), x.ndim))
    scale = paddle.rsqrt(paddle.mean(x * x, axes, keepdim=True) + eps)
    out = x * scale if weight is None else x * scale * weight.reshape(shape)
    return out, scale.reshape(x.shape[: x.ndim - len(shape)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_rms_norm(rng, counted, dtype):
    x, w, wide = numbers(rng, (4, 6, 8), (8,), (6, 8))
    tolerance = {"float32": 1e-5, "float64": 1e-11, "float16": 5e-3, "bfloat16": 4e-2}[dtype]
    assert_same(lambda x, w: rms_norm(x, w)[0], x, w, dtype=dtype, grad=True, tolerance=tolerance)
    assert_same(lambda x: rms_norm(x, eps=1e-3)[0], x, dtype=dtype, grad=True, tolerance=tolerance)
    assert_same(lambda x, w: rms_norm(x, w, (6, 8))[0], x, wide, dtype=dtype, grad=True, tolerance=tolerance)
    assert_on_device()


def test_rms_norm_returns_the_scale_of_each_row(rng, counted):
    assert_same(lambda x: rms_norm(x)[1].astype("float32"), *numbers(rng, (4, 6, 8)), tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("training", [True, False])
def test_sync_batch_norm_of_one_process(rng, counted, training):
    x, w, b = numbers(rng, (4, 3, 5, 5), (3,), (3,))
    kept = []

    def norm(x, w, b):
        layer = (paddle.nn.BatchNorm2D if on_cpu() else paddle.nn.SyncBatchNorm)(3)
        layer.weight.set_value(w)
        layer.bias.set_value(b)
        layer.train() if training else layer.eval()
        out = layer(x)
        if training:
            out.square().sum().backward(retain_graph=True)
            kept.append([layer.weight.grad.numpy(), layer.bias.grad.numpy()])
            x.clear_gradient()
        else:
            kept.append([])
        kept[-1] += [layer._mean.numpy(), layer._variance.numpy()]
        return out

    assert_same(norm, x, w, b, grad=training, tolerance=1e-4)
    for expected, found in zip(*kept, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert_on_device()


def test_sync_batch_norm_of_several_processes_is_rejected(monkeypatch):
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    with pytest.raises(OSError, match=r"sync_batch_norm.*Paddle has none for the CPU"):
        paddle.nn.SyncBatchNorm(3)(paddle.ones([2, 3, 4, 4]))


def attend(q, k, v, bias=None, causal=False, scale=None):
    """Memory-efficient attention on the device, a composition on the CPU."""
    if not on_cpu():
        mask = memory_efficient.LowerTriangularMask() if causal else bias
        return memory_efficient.memory_efficient_attention(q, k, v, mask, scale=scale)
    q, k, v = (t.transpose([0, 2, 1, 3]) for t in (q, k, v))
    scores = q.matmul(k, transpose_y=True) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores + paddle.full(scores.shape[-2:], -np.inf).triu(1).astype(scores.dtype)
    return F.softmax(scores).matmul(v).transpose([0, 2, 1, 3])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_memory_efficient_attention(rng, counted, dtype):
    q, k, v, bias = numbers(rng, (2, 6, 3, 8), (2, 7, 3, 8), (2, 7, 3, 8), (2, 3, 6, 7))
    # The kernel takes its scale as float32.
    tolerance = {"float32": 1e-5, "float64": 1e-6, "float16": 1e-2, "bfloat16": 8e-2}[dtype]
    how = {"dtype": dtype, "grad": True, "tolerance": tolerance}
    assert_same(attend, q, k, v, **how)
    assert_same(lambda q, k, v: attend(q, k, v, scale=0.3), q, k, v, **how)
    assert_same(lambda q, k, v, b: attend(q, k, v, b.detach()), q, k, v, bias, **how)
    assert_same(lambda q, k, v: attend(q, k, v, causal=True), k, k[::-1].copy(), v, **how)
    assert_on_device()


def test_unsupported_attention():
    q = paddle.ones([1, 4, 2, 8])
    with pytest.raises(OSError, match=r"memory_efficient_attention.*Paddle has none for the CPU"):
        memory_efficient.memory_efficient_attention(q, q, q, p=0.5)
