"""One training step of whole models: loss, gradients and running statistics equal the CPU's, without the CPU tier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import arrays, assert_on_device

import hardpoint


def step(make: Callable[[], paddle.nn.Layer], state: dict, inputs: list[np.ndarray], label: np.ndarray, device: str):
    """Loss, gradients and running statistics by name."""
    paddle.set_device(device)
    model = make()
    model.set_state_dict({name: paddle.to_tensor(value) for name, value in state.items()})
    hardpoint.reset_counters()
    output = model(*[paddle.to_tensor(x) for x in inputs])
    loss = F.cross_entropy(output.reshape([-1, output.shape[-1]]), paddle.to_tensor(label).reshape([-1]))
    loss.backward()
    if device != "cpu":
        assert_on_device()
    found = {"loss": arrays(loss)[0]}
    found.update({name: arrays(p.grad)[0] for name, p in model.named_parameters() if p.grad is not None})
    found.update({f"{name} itself": arrays(b)[0] for name, b in model.named_buffers()})
    return found


def check_training_step(
    make: Callable[[], paddle.nn.Layer], inputs: list[np.ndarray], label: np.ndarray, tolerance: float
):
    paddle.set_device("cpu")
    state = {name: arrays(value)[0] for name, value in make().state_dict().items()}
    expected = step(make, state, inputs, label, "cpu")
    found = step(make, state, inputs, label, "sim:0")
    assert found.keys() == expected.keys()
    for name, wanted in expected.items():
        scale = max(float(np.abs(wanted).max()), 1e-3)
        np.testing.assert_allclose(found[name], wanted, rtol=0, atol=tolerance * scale, err_msg=name)


def images(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype("float32")


def test_lenet(rng):
    label = rng.integers(0, 10, 8)
    check_training_step(paddle.vision.models.LeNet, [images(rng, 8, 1, 28, 28)], label, 2e-5)


@pytest.fixture
def double():
    paddle.set_default_dtype("float64")
    yield
    paddle.set_default_dtype("float32")


# In double precision: in float32 a flipped ReLU changes gradients, and batches of four have low-variance channels.
@pytest.mark.slow
@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["resnet18", "resnet50", "mobilenet_v2", "vgg11"])
def test_vision_models(rng, name):
    how = {"batch_norm": True} if name == "vgg11" else {}

    def make():
        model = getattr(paddle.vision.models, name)(num_classes=10, **how)
        for layer in model.sublayers():
            if isinstance(layer, paddle.nn.Dropout):
                layer.p = 0.0
        return model

    check_training_step(make, [images(rng, 4, 3, 64, 64).astype("float64")], rng.integers(0, 10, 4), 1e-9)


class Encoder(paddle.nn.Layer):
    def __init__(self, normalize_before: bool):
        super().__init__()
        self.table = paddle.nn.Embedding(50, 32)
        layer = paddle.nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.0, activation="gelu", normalize_before=normalize_before
        )
        self.encoder = paddle.nn.TransformerEncoder(layer, 2)
        self.head = paddle.nn.Linear(32, 50)

    def forward(self, tokens):
        return self.head(self.encoder(self.table(tokens)))


@pytest.mark.parametrize("normalize_before", [False, True])
def test_transformer_encoder(rng, normalize_before):
    tokens = rng.integers(0, 50, (3, 12))
    check_training_step(lambda: Encoder(normalize_before), [tokens], rng.integers(0, 50, (3, 12)), 5e-5)
