"""Complex gradients of real tensors, and casts of the static API, which Paddle has for the CPU and CUDA only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import paddle
import pytest

COMPLEX = np.arange(9).reshape(3, 3) * (0.5 - 0.25j) + np.eye(3)
FUNCTIONS: dict[str, Callable[[paddle.Tensor], paddle.Tensor]] = {
    "eig": lambda x: paddle.linalg.eig(x)[0],
    "matmul": lambda x: paddle.matmul(x.astype("float32"), paddle.to_tensor(COMPLEX, dtype="complex64")),
    "kron": lambda x: paddle.kron(x, paddle.to_tensor(COMPLEX)),
    "add": lambda x: x + paddle.to_tensor(COMPLEX),
    "multiply": lambda x: x * paddle.to_tensor(COMPLEX[:1]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_of_a_real_tensor(name: str) -> None:
    values = np.array([[2.0, 1, 0], [0.5, 3, 1], [0, 0.25, 5]])
    gradients = []
    for device in ("cpu", "sim:1"):
        paddle.set_device(device)
        x = paddle.to_tensor(values, stop_gradient=False)
        out = FUNCTIONS[name](x)
        out.abs().sum().backward()
        assert x.grad.dtype == paddle.float64
        assert device in str(x.grad.place)
        gradients.append(x.grad.numpy())
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-5, atol=1e-6)
    assert np.abs(gradients[0]).max() > 0


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "bool"])
def test_cast_of_a_static_tensor(dtype: str) -> None:
    tensor = paddle.base.core.DenseTensor()
    tensor.set(np.float32([0, 1, 2.5]), paddle.CustomPlace("sim", 1))
    found = tensor._as_type(paddle.base.framework.convert_np_dtype_to_proto_type(np.dtype(dtype)))
    assert str(found._place()) == "Place(sim:1)"
    np.testing.assert_array_equal(np.array(found), np.float32([0, 1, 2.5]).astype(dtype))
