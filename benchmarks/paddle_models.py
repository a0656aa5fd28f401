"""Training steps of ResNet-50, MobileNet and BERT on the simulated device against Paddle on the CPU in the same run.

python benchmarks/paddle_models.py [--only NAME] [--json]
"""

from __future__ import annotations

import sys

sys.path.append(sys.path.pop(0))  # to the end: this folder has a copy.py that would shadow the standard module

import os

os.environ.setdefault("HARDPOINT_SIM_THREADS", "2")  # read when the device is mounted
os.environ.setdefault("HARDPOINT_DEVICE", "sim")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["HARDPOINT_SIM_THREADS"])  # read when Paddle is imported
os.environ.setdefault("GLOG_minloglevel", "2")

import argparse
import json
from collections.abc import Callable
from typing import Any

import hardpoint
import hardpoint.paddle
import numpy as np
import paddle
from paddle import nn

from quiet import TIMES, Side, interleave

THREADS = int(os.environ["HARDPOINT_SIM_THREADS"])
GOAL = 1.0
PATIENCE = 30.0  # max seconds to find quiet rounds

Step = Callable[[], object]


class Bert(nn.Layer):
    """Encoder of 4 layers of width 256 that predicts tokens."""

    def __init__(self, vocabulary: int = 2048, width: int = 256, tokens: int = 128) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, activation="gelu")
        self.encoder, self.head = nn.TransformerEncoder(layer, 4), nn.Linear(width, vocabulary)

    def forward(self, ids: Any) -> Any:
        places = paddle.arange(ids.shape[1]).unsqueeze(0)
        return self.head(self.encoder(self.drop(self.norm(self.words(ids) + self.places(places)))))


def images(model: nn.Layer, size: int) -> tuple[nn.Layer, Any, Any]:
    """A classifier and a batch of 4 images."""
    rng = np.random.default_rng(0)
    return model, rng.standard_normal((4, 3, size, size)).astype("float32"), rng.integers(0, 100, (4, 1))


def resnet50() -> tuple[nn.Layer, Any, Any]:
    """4 images of 64x64."""
    return images(paddle.vision.models.resnet50(num_classes=100), 64)


def mobilenet() -> tuple[nn.Layer, Any, Any]:
    """MobileNetV2; 4 images of 64x64."""
    return images(paddle.vision.models.mobilenet_v2(num_classes=100), 64)


def bert() -> tuple[nn.Layer, Any, Any]:
    """2 sequences of 128 tokens."""
    ids = np.random.default_rng(0).integers(0, 2048, (2, 128))
    return Bert(), ids, ids


MODELS = {"resnet50": resnet50, "mobilenet": mobilenet, "bert": bert}


def make_step(name: str, on: str) -> Step:
    """A training step with momentum, or AdamW for BERT."""
    paddle.set_device(on)
    paddle.seed(0)
    model, inputs, labels = MODELS[name]()
    model.train()
    x, y = paddle.to_tensor(inputs), paddle.to_tensor(labels)
    update: Any
    if name == "bert":
        update = paddle.optimizer.AdamW(1e-4, parameters=model.parameters())
    else:
        update = paddle.optimizer.Momentum(0.01, parameters=model.parameters())

    def run() -> None:
        paddle.set_device(on)
        scores = model(x)
        nn.functional.cross_entropy(scores.reshape([-1, scores.shape[-1]]), y.reshape([-1])).backward()
        update.step()
        update.clear_grad()

    return run


def device() -> str:
    return f"{hardpoint.mounted()[0]}:0"


def synchronize() -> None:
    paddle.device.synchronize(device())


def measure(name: str) -> dict[str, Any]:
    """Milliseconds per step, and the operators that fell back to the CPU."""
    sides = Side(make_step(name, device()), synchronize), Side(make_step(name, "cpu"))
    hardpoint.reset_counters()
    sides[0].round()
    cpu = {operator: calls["cpu"] for operator, calls in sorted(hardpoint.counters().items()) if calls.get("cpu")}
    interleave(*sides, patience=PATIENCE)
    ours, native = (side.seconds * 1e3 for side in sides)
    quiet = all(side.quiet for side in sides)
    result = {"model": name, "device_ms": ours, "native_ms": native, "ratio": ours / native, "goal": GOAL}
    return {**result, "quiet": quiet, "cpu_operators": cpu}


def main() -> None:
    """Print the ratio of each model's training step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MODELS, help="this model only")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    if not hardpoint.paddle.device_names():
        parser.error(
            "Paddle has no Hardpoint device; if they are installed in different folders, set CUSTOM_DEVICE_ROOT to "
            "Hardpoint's paddle_custom_device"
        )
    if not options.json:
        print(
            f"A training step on {device()}, against Paddle {paddle.__version__} on the CPU; threads: {THREADS} each;"
        )
        print(f"{TIMES}, best of interleaved rounds. ~: other processes disturbed every round.\n")
        print(f"{'':12}{'device ms':>11}{'native ms':>11}{'ratio':>9}{'goal':>8}  operators in the CPU tier (calls)")
    results = []
    for name in [options.only] if options.only else MODELS:
        r = measure(name)
        results.append(r)
        if not options.json:
            ratio = f"{'' if r['quiet'] else '~'}{r['ratio']:.2f}"
            cpu = f"{len(r['cpu_operators'])} ({sum(r['cpu_operators'].values())})"
            times = f"{r['device_ms']:11.1f}{r['native_ms']:11.1f}"
            print(f"{name:12}{times}{ratio:>9}{f'<= {GOAL}':>8}  {cpu}", flush=True)
    if options.json:
        print(json.dumps({"threads": THREADS, "models": results}))


if __name__ == "__main__":
    main()
