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
from paddle.vision import ops as vision

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


class Ocr(nn.Layer):
    """Columns of an image as a sequence: convolutions, an LSTM in both directions, and scores for CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = nn.Sequential(
            *(nn.Conv2D(1, 8, 3, padding=1), nn.BatchNorm2D(8), nn.ReLU(), nn.MaxPool2D((2, 1))),
            *(nn.Conv2D(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2D((1, None))),
        )
        self.lstm, self.head = nn.LSTM(8, 12, direction="bidirect"), nn.Linear(24, 11)

    def forward(self, x: Tensor) -> Tensor:
        x = self.columns(x).squeeze(2).transpose([0, 2, 1])
        return self.head(self.lstm(x)[0]).transpose([1, 0, 2])


def ocr(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    network = Ocr()
    x = paddle.to_tensor(rng.standard_normal((3, 1, 8, 16)).astype("float32"))
    labels = paddle.to_tensor(rng.integers(1, 11, (3, 5)).astype("int32"))
    steps, counts = paddle.to_tensor([16, 16, 12]), paddle.to_tensor([5, 3, 4])
    return network, lambda: nn.CTCLoss()(network(x), labels, steps, counts)


class Tagger(nn.Layer):
    """Two recurrent layers over sequences of different lengths."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.gru, self.lstm = nn.GRU(16, 12, direction="bidirect"), nn.LSTM(24, 12, num_layers=2)
        self.head = nn.Linear(12, 5)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        x = self.gru(self.words(ids), sequence_length=lengths)[0]
        return self.head(self.lstm(x, sequence_length=lengths)[0])


def tagger(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    network = Tagger()
    ids, lengths = paddle.to_tensor(rng.integers(1, VOCABULARY, (3, LENGTH))), paddle.to_tensor([LENGTH, 7, 1])
    tags = paddle.to_tensor(rng.integers(0, 5, (3 * LENGTH,)))
    return network, lambda: F.cross_entropy(network(ids, lengths).reshape([-1, 5]), tags)


class Detector(nn.Layer):
    """Two scales of features, added, and a head that gives every position a class and a box."""

    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2D(3, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.Hardswish())
        self.coarse = nn.Sequential(nn.Conv2D(8, 8, 3, 2, 1), nn.BatchNorm2D(8), nn.Hardswish())
        self.head = nn.Conv2D(8, 3 + 4, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        fine = self.fine(x)
        features = fine + F.interpolate(self.coarse(fine), size=fine.shape[2:], mode="nearest")
        scores, boxes = paddle.split(self.head(features), [3, 4], axis=1)
        return scores, F.relu(boxes)


def overlap(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of boxes that share a position: distances to their left, top, right and bottom."""
    inner = paddle.minimum(first, second)
    shared = (inner[:, 0] + inner[:, 2]) * (inner[:, 1] + inner[:, 3])
    areas = [(box[:, 0] + box[:, 2]) * (box[:, 1] + box[:, 3]) for box in (first, second)]
    return (shared + 1) / (areas[0] + areas[1] - shared + 1)


def detector(rng: np.random.Generator) -> tuple[nn.Layer, Loss]:
    network = Detector()
    x = paddle.to_tensor(rng.standard_normal((2, 3, 16, 16)).astype("float32"))
    classes = paddle.to_tensor((rng.random((2, 3, 8, 8)) > 0.9).astype("float32"))
    boxes = paddle.to_tensor(rng.random((2, 4, 8, 8)).astype("float32") * 2)

    def loss() -> Tensor:
        scores, found = network(x)
        inside = classes.max(axis=1)
        distance = (F.smooth_l1_loss(found, boxes, reduction="none").sum(1) + 1 - overlap(found, boxes)) * inside
        return F.sigmoid_focal_loss(scores, classes, inside.sum().reshape([1])) + distance.sum() / inside.sum()

    return network, loss


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


@pytest.mark.parametrize("make", [gpt, bert, recommender, quantized, ocr, tagger, detector])
def test_ten_steps(make):
    paddle.seed(3)
    expected, start = train(make, "cpu", None)
    hardpoint.reset_counters()
    found, _ = train(make, "sim:0", start)
    # float32 with sums in another order; ten steps amplify the difference little.
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert expected[-1] < expected[0]
    assert {name for name, tiers in hardpoint.counters().items() if "cpu" in tiers} == set()


def detections(device: str, scores: np.ndarray, boxes: np.ndarray, features: np.ndarray) -> list[np.ndarray]:
    """The stages after a detector: anchors, decoded boxes, suppression, and features of regions with their gradient."""
    paddle.set_device(device)
    image = paddle.to_tensor(features, stop_gradient=False)
    sizes = paddle.to_tensor(np.array([[64, 64]], "int32"))
    head = paddle.to_tensor(scores)
    decoded, confidence = vision.yolo_box(head, sizes, [10, 13, 16, 30], 2, 0.01, 16)
    anchors, variances = vision.prior_box(image, paddle.zeros([1, 3, 64, 64]), [16.0], [32.0])
    given = paddle.to_tensor(boxes)
    kept = vision.nms(given, 0.4, paddle.to_tensor(np.linspace(1, 0, len(boxes), dtype="float32")))
    regions = vision.roi_align(image, given, paddle.to_tensor(np.array([len(boxes)], "int32")), 3, 0.25)
    (regions * regions).sum().backward()
    coded = vision.box_coder(given, [0.1, 0.1, 0.2, 0.2], given[:3], "encode_center_size")
    return [x.numpy() for x in (decoded, confidence, anchors, variances, kept, regions, image.grad, coded)]


def test_detection_heads(rng):
    scores = rng.standard_normal((1, 14, 4, 4)).astype("float32")
    corners = rng.random((6, 2)) * 40
    boxes = np.concatenate([corners, corners + 4 + rng.random((6, 2)) * 18], 1).astype("float32")
    features = rng.standard_normal((1, 8, 16, 16)).astype("float32")
    expected = detections("cpu", scores, boxes, features)
    for found, wanted in zip(detections("sim:0", scores, boxes, features), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
