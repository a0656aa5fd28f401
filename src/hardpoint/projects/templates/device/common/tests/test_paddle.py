"""The same plug-in in PaddlePaddle."""

import hardpoint
import numpy as np
import pytest

paddle = pytest.importorskip("paddle")


def test_add_and_gradient():
    paddle.set_device("mychip")
    a, b = np.random.rand(3, 4).astype("float32"), np.random.rand(4, 5).astype("float32")
    x, y = paddle.to_tensor(a, stop_gradient=False), paddle.to_tensor(b)
    assert str(x.place) == "Place(mychip:0)"
    hardpoint.reset_counters()
    out = paddle.matmul(x, y)
    total = out + out
    total.sum().backward()
    np.testing.assert_allclose(total.numpy(), 2 * a @ b, rtol=1e-5)
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(2 * b.sum(1), a.shape), rtol=1e-5)
    for name in ("phi::add", "phi::matmul"):
        assert "vendor" in hardpoint.counters()[name]
