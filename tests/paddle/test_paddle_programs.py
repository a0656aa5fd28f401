"""Ten training steps of whole programs: the losses of the CPU, and nothing in the CPU tier."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from paddle import Tensor, nn
from paddle.quantization import QAT, QuantConfig
from paddle.quantization.quanters import FakeQuanterWithAbsMaxObserver

import hardpoint

pytestmark = pytest.mark.slow

Loss = Callable[[], Tensor]
VOCABULARY, WIDTH, LENGTH = 50, 32, 12


class Block(nn.Layer):
    """A decoder block with normalization first."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.LayerList([nn.LayerNorm(WIDTH) for _ in range(2)])
        self.attention = nn.MultiHeadAttention(WIDTH, 4)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, mask)
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Layer):
    """A decoder with tied embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.LayerList([Block() for _ in range(2)])
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids) + self.positions(paddle.arange(LENGTH))
        mask = paddle.triu(paddle.full([LENGTH, LENGTH], -1e9), 1)
        for block in self.blocks:
            x = block(x, mask)
        return paddle.matmul(self.norm(x), self.tokens.weight, transpose_y=True)


def gpt(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    network, ids = Gpt(), paddle.to_tensor(rng.integers(0, VOCABULARY, (2, LENGTH)))

    def loss() -> Tensor:
        return F.cross_entropy(network(ids)[:, :-1].reshape([-1, VOCABULARY]), ids[:, 1:].flatten())

    return network, loss


class Bert(nn.Layer):
    """An encoder with a mask, and a head for every token."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.segments = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 64, dropout=0.0, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: Tensor, segments: Tensor, mask: Tensor) -> Tensor:
        x = self.tokens(ids) + self.segments(segments)
        return self.head(self.encoder(x, (1 - mask).unsqueeze([1, 2]) * -1e4))


def bert(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    network = Bert()
    ids = rng.integers(0, VOCABULARY, (2, LENGTH))
    labels = paddle.to_tensor(np.where(rng.random((2, LENGTH)) < 0.3, ids, -100).reshape(-1))
    segments = paddle.to_tensor(rng.integers(0, 2, (2, LENGTH)))
    mask = paddle.to_tensor((np.arange(LENGTH) < [[LENGTH], [9]]).astype("float32"))

    def loss() -> Tensor:
        return F.cross_entropy(network(paddle.to_tensor(ids), segments, mask).reshape([-1, VOCABULARY]), labels)

    return network, loss


def recommender(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    """Embeddings with sparse gradients, and a binary loss."""
    network = nn.Sequential(nn.Embedding(100, 8, sparse=True), nn.Flatten(), nn.Linear(24, 1))
    ids = paddle.to_tensor(rng.integers(0, 100, (8, 3)))
    clicks = paddle.to_tensor(rng.integers(0, 2, (8, 1)).astype("float32"))
    return network, lambda: F.binary_cross_entropy_with_logits(network(ids), clicks)


def quantized(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    """Quantization-aware training of a convolutional net."""
    quanter = FakeQuanterWithAbsMaxObserver(moving_rate=0.9)
    plain = nn.Sequential(nn.Conv2D(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    network = QAT(QuantConfig(activation=quanter, weight=quanter)).quantize(plain)
    x, y = paddle.to_tensor(rng.standard_normal((4, 3, 8, 8)).astype("float32")), paddle.to_tensor([0, 1, 2, 3])
    return network, lambda: F.cross_entropy(network(x), y)


def train(
    make: Callable[[np.random.Generator], tuple[nn.Layer, Loss]], device: str, start: dict[str, np.ndarray] | None
) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses of ten steps, and the parameters before them."""
    paddle.set_device(device)
    network, loss = make(np.random.default_rng(5))
    if start is not None:
        network.set_state_dict({name: paddle.to_tensor(value) for name, value in start.items()})
    before = {name: value.numpy() for name, value in network.state_dict().items()}
    optimizer = paddle.optimizer.Momentum(0.01, parameters=network.parameters())
    losses = []
    for _ in range(10):
        value = loss()
        value.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(value))
    return losses, before


@pytest.mark.parametrize("make", [gpt, bert, recommender, quantized])
def test_ten_steps(make):
    paddle.seed(3)
    expected, start = train(make, "cpu", None)
    hardpoint.reset_counters()
    found, _ = train(make, "sim:0", start)
    # float32 with sums in another order; ten steps amplify the difference little.
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert expected[-1] < expected[0]
    assert {name for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == set()
