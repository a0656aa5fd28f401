"""Train LeNet on handwritten digits with PaddlePaddle on the device that Hardpoint mounts.

python examples/digits_paddle.py [--device sim] [--epochs 6]
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import paddle
from paddle import nn
from sklearn.datasets import load_digits

import hardpoint


class LeNet(nn.Sequential):
    """Two convolutions and three linear layers for 8x8 images."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2D(6, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2)),
            *(nn.Flatten(), nn.Linear(16 * 4 * 4, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
        )


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """1,797 images from scikit-learn: training images and labels, then test images and labels."""
    data = load_digits()
    images, labels = data.images.astype("float32")[:, None] / 16, data.target.astype("int64")[:, None]
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1437], order[1437:]
    return images[train], labels[train], images[test], labels[test]


def train(device: str, epochs: int, *, quiet: bool = False) -> tuple[list[float], float]:
    """Train on a device; returns the losses and the test accuracy."""
    paddle.set_device(device)
    paddle.seed(0)
    train_images, train_labels, test_images, test_labels = digits()
    initial = np.random.default_rng(1)
    model = LeNet()
    for weight in model.parameters():  # the same on every device
        inputs = np.prod(weight.shape[1:]) if weight.ndim > 2 else weight.shape[0]
        bound = np.sqrt(6 / inputs) if weight.ndim > 1 else 0
        weight.set_value(initial.uniform(-bound, bound, weight.shape).astype("float32"))
    optimizer = paddle.optimizer.Adam(2e-3, parameters=model.parameters())
    loss_function = nn.CrossEntropyLoss()
    losses, right = [], 0.0
    for epoch in range(1, epochs + 1):
        model.train()
        order = np.random.default_rng(epoch).permutation(len(train_labels))
        for step, start in enumerate(range(0, len(order), 64), 1):
            batch = order[start : start + 64]
            images, labels = paddle.to_tensor(train_images[batch]), paddle.to_tensor(train_labels[batch])
            scores = model(images)
            loss = loss_function(scores, labels)
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            losses.append(float(loss))
            if not quiet and step % 10 == 0:
                share = float(paddle.metric.accuracy(scores, labels))
                print(f"  epoch {epoch}, step {step:2}: loss {losses[-1]:.4f}, accuracy {share:.1%}", flush=True)
        model.eval()
        with paddle.no_grad():
            right = float(paddle.metric.accuracy(model(paddle.to_tensor(test_images)), paddle.to_tensor(test_labels)))
        if not quiet:
            print(f"  epoch {epoch}: test accuracy {right:.1%}", flush=True)
    return losses, right


def main() -> None:
    """Train, then print where the operators ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=hardpoint.mounted()[0])
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()

    paddle.set_device(options.device)
    print(f"PaddlePaddle {paddle.__version__} on {paddle.get_device()}: {hardpoint.devices()[0].name}")
    print("  training; kernels that are not prebuilt are compiled on first use", flush=True)
    start = time.perf_counter()
    train(options.device, options.epochs)
    print(f"  trained in {time.perf_counter() - start:.1f} s")
    calls = {name: tiers for name, tiers in hardpoint.counters().items() if name.startswith("phi::")}
    device = sum(n for tiers in calls.values() for tier, n in tiers.items() if tier != "cpu")
    cpu = sum(tiers.get("cpu", 0) for tiers in calls.values())
    print(f"  operator calls: {device:,} on the device, {cpu:,} on the CPU (hardpoint.counters())")


if __name__ == "__main__":
    main()
