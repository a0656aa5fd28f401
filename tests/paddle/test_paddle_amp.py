"""Mixed precision: a small net trains in 16-bit floats with losses close to float32 on the CPU."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np
import paddle
import pytest
from comparison import assert_same
from paddle import nn

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from digits_paddle import LeNet, digits

STEPS = 12


def start(device: str, seed: int) -> tuple[LeNet, list[tuple[paddle.Tensor, paddle.Tensor]]]:
    """A net with the same weights on every device, and batches of digits."""
    paddle.set_device(device)
    rng = np.random.default_rng(seed)
    net = LeNet()
    for weight in net.parameters():
        inputs = np.prod(weight.shape[1:]) if weight.ndim > 2 else weight.shape[0]
        bound = np.sqrt(6 / inputs) if weight.ndim > 1 else 0
        weight.set_value(rng.uniform(-bound, bound, weight.shape).astype("float32"))
    images, labels, _, _ = digits()
    order = rng.permutation(len(labels))
    batches = [order[i * 64 : i * 64 + 64] for i in range(STEPS)]
    return net, [(paddle.to_tensor(images[b]), paddle.to_tensor(labels[b])) for b in batches]


def optimizer(net: nn.Layer, **options: bool) -> paddle.optimizer.Optimizer:
    return paddle.optimizer.Momentum(0.02, parameters=net.parameters(), **options)


def train(
    net: nn.Layer,
    batches: list[tuple[paddle.Tensor, paddle.Tensor]],
    update: paddle.optimizer.Optimizer,
    context: Callable[[], AbstractContextManager[object]] = nullcontext,
    scaler: paddle.amp.GradScaler | None = None,
) -> list[float]:
    losses = []
    for images, labels in batches:
        with context():
            loss = nn.functional.cross_entropy(net(images), labels)
        if scaler is None:
            loss.backward()
            update.step()
        else:
            scaler.scale(loss).backward()
            scaler.step(update)
            scaler.update()
            assert scaler.is_enable()  # Paddle may disable it silently
        update.clear_grad()
        losses.append(float(loss))
    return losses


@pytest.fixture
def expected(seed: int) -> list[float]:
    net, batches = start("cpu", seed)
    losses = train(net, batches, optimizer(net))
    assert np.mean(losses[-3:]) < losses[0]
    return losses


# Rounding to 16 bits (2**-11, or 2**-8 for bfloat16) accumulates over a dozen steps: at most 0.018 and 0.040 in 30
# trainings, whose losses fall by 0.7.
FLOAT16, BFLOAT16 = 4e-2, 8e-2


def test_float16_with_a_scaler(seed: int, expected: list[float]) -> None:
    net, batches = start("sim", seed)
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
    losses = train(net, batches, optimizer(net), lambda: paddle.amp.auto_cast(dtype="float16"), scaler)
    with paddle.amp.auto_cast(dtype="float16"):
        assert nn.functional.linear(paddle.ones([2, 120]), net[8].weight).dtype == paddle.float16
    assert all(p.dtype == paddle.float32 for p in net.parameters())
    assert losses == pytest.approx(expected, abs=FLOAT16)
    assert losses != expected


def test_float16_weights_and_a_master_copy(seed: int, expected: list[float]) -> None:
    net, batches = start("sim", seed)
    net, update = paddle.amp.decorate(net, optimizer(net, multi_precision=True), level="O2", dtype="float16")
    assert all(p.dtype == paddle.float16 for p in net.parameters())
    scaler = paddle.amp.GradScaler(init_loss_scaling=1024)
    losses = train(net, batches, update, lambda: paddle.amp.auto_cast(level="O2", dtype="float16"), scaler)
    assert losses == pytest.approx(expected, abs=FLOAT16)
    assert losses != expected


def test_overflowing_gradient_is_skipped() -> None:
    weight = paddle.create_parameter([4, 1], "float32", default_initializer=nn.initializer.Constant(1.0))
    update = paddle.optimizer.SGD(0.1, parameters=[weight])
    # The scale must not decrease: Paddle 3.3 cannot print a lower one with a recent NumPy, on any device.
    scaler = paddle.amp.GradScaler(init_loss_scaling=2.0**15, decr_every_n_nan_or_inf=3)
    for factor, moved in ((8.0, False), (0.5, True)):  # 8 times the scale overflows float16
        before = weight.numpy()
        with paddle.amp.auto_cast(dtype="float16"):
            out = paddle.full([1, 4], factor) @ weight
        assert out.dtype == paddle.float16
        scaler.scale(out.astype("float32").sum()).backward()
        scaler.step(update)
        scaler.update()
        update.clear_grad()
        expected = before - np.float32(0.1) * np.float32(factor) if moved else before
        np.testing.assert_allclose(weight.numpy(), expected, rtol=1e-6)
        assert scaler.is_enable()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_loss_of_16_bit_scores(rng: np.random.Generator, dtype: str) -> None:
    """For bfloat16, Paddle computes the loss in float32 and requests the gradient in both dtypes."""
    scores, labels = rng.standard_normal((6, 10)).astype("float32"), rng.integers(0, 10, (6, 1))
    assert_same(
        lambda x, y: nn.functional.cross_entropy(x, y, reduction="none"), scores, labels, dtype=dtype, grad=True
    )


def test_paddle_disables_bfloat16_autocast() -> None:
    """Paddle only knows a few device names; documented in docs/howto/paddle.md."""
    x = paddle.ones([2, 3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with paddle.amp.auto_cast(dtype="bfloat16"):
            assert (x @ x.t()).dtype == paddle.float32


def test_bfloat16_weights(seed: int, expected: list[float]) -> None:
    """The alternative to autocast: bfloat16 weights with a master copy in the optimizer."""
    net, batches = start("sim", seed)
    net.bfloat16()
    batches = [(images.astype("bfloat16"), labels) for images, labels in batches]
    losses = train(net, batches, optimizer(net, multi_precision=True))
    assert all(p.dtype == paddle.bfloat16 for p in net.parameters())
    assert losses == pytest.approx(expected, abs=BFLOAT16)
    assert losses != expected
