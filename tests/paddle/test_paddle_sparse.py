"""Sparse tensors, computed in the CPU tier. Paddle's own fallback passes device memory to its CPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import pytest
from comparison import assert_same
from paddle import sparse

CASES: dict[str, Callable[..., Any]] = {
    "coo and back": lambda x, y: x.to_sparse_coo(2).to_dense(),
    "coo with dense columns": lambda x, y: x.to_sparse_coo(1).to_dense(),
    "coo members": lambda x, y: [part(x.to_sparse_coo(2)) for part in (lambda s: s.values(), lambda s: s.indices())],
    "csr and back": lambda x, y: x.to_sparse_csr().to_dense(),
    "csr members": lambda x, y: [x.to_sparse_csr().values(), x.to_sparse_csr().crows(), x.to_sparse_csr().cols()],
    "from parts": lambda x, y: sparse.sparse_coo_tensor([[0, 1, 3], [2, 0, 4]], y[0, :3], [4, 5]).to_dense(),
    "relu": lambda x, y: sparse.nn.functional.relu((x - 0.5).to_sparse_coo(2)).to_dense(),
    "softmax": lambda x, y: sparse.nn.functional.softmax(x.to_sparse_csr()).to_dense(),
    "sum of two": lambda x, y: sparse.add(x.to_sparse_coo(2), y.to_sparse_coo(2)).to_dense(),
    "transpose": lambda x, y: sparse.transpose(x.to_sparse_coo(2), [1, 0]).to_dense(),
    "without elements": lambda x, y: (x * 0).to_sparse_coo(2).to_dense(),
}
#: Paddle cannot differentiate the conversion from CSR.
WITHOUT_GRADIENT = ("csr and back", "csr members", "softmax")


@pytest.fixture
def matrices(rng) -> list[np.ndarray]:
    return [np.where(rng.random((4, 5)) > 0.5, rng.random((4, 5)) + 0.1, 0).astype("float32") for _ in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(matrices, counted, name):
    assert_same(CASES[name], *matrices, grad=name not in WITHOUT_GRADIENT)
    assert any("coo" in operator or "csr" in operator for operator in counted())


def use_twice(x: Any) -> Any:
    x = x.to_sparse_coo(2)
    return sparse.tanh(x).to_dense() + 2 * sparse.nn.functional.relu(x).to_dense() + sparse.sin(x).to_dense()


def test_gradients_of_a_tensor_used_several_times_are_added(matrices):
    """Paddle adds them in place on its own devices, and drops the sum on others."""
    assert_same(use_twice, matrices[0], grad=True)


def test_gradients_of_values_are_added(matrices):
    def use(x: Any) -> Any:
        x = x.to_sparse_coo(2)
        return sparse.nn.functional.relu(x).values() + x.values() * 3 + sparse.tanh(x).values()

    assert_same(use, matrices[0], grad=True)


def test_gradients_of_several_uses_with_paddle_grad(matrices):
    found = {}
    for device in ("cpu", "sim:0"):
        paddle.set_device(device)
        x = paddle.to_tensor(matrices[0], stop_gradient=False)
        found[device] = paddle.grad(use_twice(x).sum(), x)[0].numpy()
    np.testing.assert_allclose(found["sim:0"], found["cpu"], rtol=1e-6)


def test_values_of_gradients_can_be_added(matrices):
    """Outside of a backward pass an addition has no other effect, even of values that share memory with gradients."""
    dense = [paddle.to_tensor(matrix, stop_gradient=False) for matrix in (matrices[0], matrices[0] * 2)]
    parts = [x.to_sparse_coo(2) for x in dense]
    for part in parts:
        part.retain_grads()
        sparse.tanh(part).to_dense().sum().backward()
    first, second = (part.grad.values() for part in parts)
    before = first.numpy(), second.numpy()
    total = (first + second).numpy()
    np.testing.assert_allclose(total, before[0] + before[1], rtol=1e-6)
    np.testing.assert_array_equal(second.numpy(), before[1])


def test_convolution(rng):
    """Its output shares the input's positions and keeps a table of them, which the second convolution reads."""
    points = np.where(rng.random((1, 4, 4, 4, 1)) > 0.6, rng.random((1, 4, 4, 4, 2)), 0).astype("float32")
    weight = rng.standard_normal((3, 3, 3, 2, 2)).astype("float32")

    def convolve(x, kernel):
        x = x.to_sparse_coo(4)
        for _ in range(2):
            x = sparse.nn.functional.subm_conv3d(x, kernel, key="same")
        return x.to_dense()

    assert_same(convolve, points, weight, grad=True)
