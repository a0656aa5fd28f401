"""Train a small convolutional net on handwritten digits on the device that Hardpoint mounts.

python examples/digits.py [--device sim:0] [--epochs 6]
"""

from __future__ import annotations

import argparse
import time
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn

import hardpoint

# Operator calls that fall back to the CPU are summarized at the end instead.
warnings.filterwarnings("ignore", message=".* runs on the CPU")


class Net(nn.Sequential):
    """Two convolutions, batch norm, dropout and a classifier for 8x8 images."""

    def __init__(self) -> None:
        super().__init__(
            *(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(32 * 4 * 4, 10)),
        )


def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """1,797 images from scikit-learn: training images and labels, then test images and labels."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(data.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1437], order[1437:]
    return images[train], labels[train], images[test], labels[test]


def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of correctly classified images."""
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main() -> None:
    """Train, then print where the operators ran."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default=str(torch.accelerator.current_accelerator()))
    parser.add_argument("--epochs", type=int, default=6)
    options = parser.parse_args()

    torch.manual_seed(0)
    train_images, train_labels, test_images, test_labels = (t.to(options.device) for t in digits())
    model = Net().to(options.device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss_function = nn.CrossEntropyLoss()
    print(f"PyTorch {torch.__version__} on {train_images.device}: {hardpoint.devices()[0].name}")
    print("  training; kernels that are not prebuilt are compiled on first use", flush=True)

    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        model.train()
        total = 0.0
        for batch in torch.randperm(len(train_labels)).split(64):
            batch = batch.to(options.device)
            optimizer.zero_grad()
            loss = loss_function(model(train_images[batch]), train_labels[batch])
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        right = accuracy(model, test_images, test_labels)
        print(f"  epoch {epoch}: loss {total / len(train_labels):.4f}, test accuracy {right:.1%}", flush=True)
    print(f"  trained in {time.perf_counter() - start:.1f} s")

    calls = hardpoint.counters().values()
    device = sum(n for tiers in calls for tier, n in tiers.items() if tier != "cpu")
    cpu = sum(tiers.get("cpu", 0) for tiers in calls)
    print(f"  operator calls: {device:,} on the device, {cpu:,} on the CPU (hardpoint.counters())")


if __name__ == "__main__":
    main()
