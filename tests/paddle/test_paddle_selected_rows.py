"""Selected rows, the gradients of ``Embedding(sparse=True)``: optimizers, sums and clipping, on the device."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import paddle
import pytest
from paddle import nn

import hardpoint

ROWS, WIDTH = 11, 4
IDS = [np.array([[1, 4, 4], [9, 1, 0]]), np.array([4, 10])]


def train(
    device: str, sparse: bool, make: Callable[..., paddle.optimizer.Optimizer], lookups: int, steps: int = 3
) -> tuple[list[float], np.ndarray]:
    """Losses, and the embedding's weight in the end. With two lookups, the backward pass adds two gradients."""
    paddle.set_device(device)
    rng = np.random.default_rng(3)
    table = nn.Embedding(ROWS, WIDTH, sparse=sparse)
    table.weight.set_value(rng.standard_normal((ROWS, WIDTH)).astype("float32"))
    matrix = paddle.to_tensor(rng.standard_normal((WIDTH, 2)).astype("float32"))
    ids = [paddle.to_tensor(numbers) for numbers in IDS[:lookups]]
    optimizer = make(parameters=[table.weight])
    losses = []
    for _ in range(steps):
        loss = paddle.add_n([(paddle.tanh(table(numbers)) @ matrix).square().sum() for numbers in ids])
        loss.backward()
        assert table.weight.grad.is_selected_rows() == sparse
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    return losses, table.weight.numpy()


def assert_on_device(counted) -> None:
    assert [name for name, tiers in counted().items() if "cpu" in tiers] == []


OPTIMIZERS = {
    "SGD": {},
    "Momentum": {"weight_decay": 0.05},
    "Adam": {},
    "Adagrad": {},
    "RMSProp": {},
    "Lamb": {},
}


@pytest.mark.parametrize("lookups", [1, 2])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_do_the_steps_of_dense_gradients(counted, name, lookups):
    # Not Paddle's CPU with sparse gradients: its Adam multiplies the powers of beta before it uses them.
    def make(**given):
        return getattr(paddle.optimizer, name)(0.05, **OPTIMIZERS[name], **given)

    losses, weight = train("cpu", False, make, lookups)
    counted()
    found, found_weight = train("sim:0", True, make, lookups)
    np.testing.assert_allclose(found, losses, rtol=2e-5)
    np.testing.assert_allclose(found_weight, weight, rtol=1e-4, atol=1e-5)
    assert_on_device(counted)


@pytest.mark.parametrize("lookups", [1, 2])
@pytest.mark.parametrize("name", ["SGD", "Momentum"])
def test_in_the_cpu_tier(name, lookups):
    """As on a device of memory and copies only."""

    def make(**given):
        return getattr(paddle.optimizer, name)(0.05, **given)

    losses, weight = train("cpu", False, make, lookups)
    with hardpoint.fallback("phi::.*=cpu"):
        found, found_weight = train("sim:0", True, make, lookups)
    np.testing.assert_allclose(found, losses, rtol=2e-5)
    np.testing.assert_allclose(found_weight, weight, rtol=1e-4, atol=1e-5)


def test_lazy_adam_leaves_other_rows_alone(counted):
    def make(**given):
        return paddle.optimizer.Adam(0.05, lazy_mode=True, **given)

    # The same rows in every step: others have no momentum, so the dense step leaves them alone, too.
    losses, weight = train("cpu", False, make, 2)
    counted()
    found, found_weight = train("sim:0", True, make, 2)
    np.testing.assert_allclose(found, losses, rtol=2e-5)
    np.testing.assert_allclose(found_weight, weight, rtol=1e-4, atol=1e-5)
    assert_on_device(counted)


def test_lazy_adam_forgets_nothing():
    """A row without a gradient keeps its value and its moments."""
    paddle.set_device("sim:0")
    table = nn.Embedding(ROWS, WIDTH, sparse=True)
    optimizer = paddle.optimizer.Adam(0.05, lazy_mode=True, parameters=[table.weight])

    def step(*numbers: int) -> None:
        table(paddle.to_tensor(numbers)).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    step(1, 2)
    before = table.weight.numpy()
    step(2, 3)
    after = table.weight.numpy()
    assert np.array_equal(np.flatnonzero((after != before).any(1)), [2, 3])
    # Bias corrections differ, and row 3 takes its first step: 0.1 g / sqrt(0.001 g²) with the powers of the second.
    np.testing.assert_allclose((before - after)[3], 0.05 * 0.1 / 0.19 * (0.001999 / 0.001) ** 0.5, rtol=1e-4)
    np.testing.assert_allclose((before - after)[2], 0.05, rtol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"grad_clip": lambda: nn.ClipGradByGlobalNorm(0.1)},
        {"grad_clip": lambda: nn.ClipGradByNorm(0.1)},
        {"weight_decay": lambda: 0.1},
    ],
    ids=["global norm", "norm", "weight decay"],
)
def test_gradients_are_changed_before_the_step(options):
    def make(**given):
        return paddle.optimizer.SGD(0.5, **given, **{name: value() for name, value in options.items()})

    losses, weight = train("cpu", True, make, 2)
    found, found_weight = train("sim:0", True, make, 2)
    np.testing.assert_allclose(found, losses, rtol=2e-5)
    np.testing.assert_allclose(found_weight, weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
def test_sums_of_tensors(counted, dtype):
    rng = np.random.default_rng(1)
    arrays = [(rng.random((3, 5)) * 9).astype(dtype) for _ in range(4)]
    paddle.set_device("sim:0")
    counted()
    found = paddle.add_n([paddle.to_tensor(x) for x in arrays])
    wide = sum(x.astype("float64") for x in arrays)
    np.testing.assert_allclose(found.numpy(), wide.astype(dtype), rtol=1e-6 if dtype == "float32" else 1e-12)
    assert counted()["phi::add_n"] == {"decomposition": 1}


@pytest.mark.parametrize(("name", "rule"), [("SGD", ""), ("Adam", ""), ("SGD", "phi::.*=cpu")])
def test_static_graph(name, rule):
    """One embedding, looked up twice: the program adds selected rows."""
    weight = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype("float32")
    found = {}
    paddle.enable_static()
    try:
        for place, sparse in ((paddle.CPUPlace(), False), (paddle.CustomPlace("sim", 0), True)):
            program, startup = paddle.static.Program(), paddle.static.Program()
            with paddle.static.program_guard(program, startup):
                table = nn.Embedding(
                    ROWS, WIDTH, sparse=sparse, weight_attr=paddle.ParamAttr(initializer=nn.initializer.Assign(weight))
                )
                loss = sum(table(paddle.assign(numbers)).square().sum() for numbers in IDS)
                clip = nn.ClipGradByGlobalNorm(0.5)
                getattr(paddle.optimizer, name)(0.05, grad_clip=clip).minimize(loss)
                executor = paddle.static.Executor(place)
                with (
                    paddle.static.scope_guard(paddle.static.Scope()),
                    hardpoint.fallback(rule) if rule else nullcontext(),
                ):
                    executor.run(startup)
                    steps = [executor.run(program, fetch_list=[loss, table.weight]) for _ in range(3)]
            found[sparse] = [array for step in steps for array in step]
    finally:
        paddle.disable_static()
    for ours, right in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(ours, right, rtol=1e-4, atol=1e-6)
