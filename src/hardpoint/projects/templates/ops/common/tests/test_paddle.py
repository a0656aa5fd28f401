"""silu_mul in PaddlePaddle, on the CPU and on the device."""

import hardpoint
import numpy as np
import pytest

paddle = pytest.importorskip("paddle")
silu_mul = pytest.importorskip("myops.paddle").silu_mul
DEVICES = ["cpu", *hardpoint.mounted()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shapes", [[(3, 4), (3, 4)], [(3, 4), (4,)], [(), ()]])
def test_values_and_gradients(device, shapes):
    paddle.set_device(device)
    gate, up = (paddle.to_tensor(np.float32(np.random.standard_normal(s)), stop_gradient=False) for s in shapes)
    out = silu_mul(gate, up)
    gradients = paddle.grad(out.sum(), [gate, up])
    expected = paddle.nn.functional.silu(gate) * up
    expected_gradients = paddle.grad(expected.sum(), [gate, up])
    assert out.place == gate.place
    for a, b in zip((out, *gradients), (expected, *expected_gradients), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_graph(device):
    paddle.set_device(device)
    gate, up = paddle.randn([3, 4]), paddle.randn([3, 4])
    graph = paddle.jit.to_static(silu_mul, full_graph=True)
    np.testing.assert_allclose(graph(gate, up).numpy(), silu_mul(gate, up).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_dtype_mismatch(device):
    paddle.set_device(device)
    with pytest.raises(TypeError, match="same dtype"):
        silu_mul(paddle.ones([2]), paddle.ones([2], "float64"))
