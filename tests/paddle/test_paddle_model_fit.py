"""Paddle's high-level API, ``paddle.Model``: its losses are the CPU's, and a checkpoint resumes bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import nn


class Losses(paddle.callbacks.Callback):
    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def on_train_batch_end(self, step, logs=None) -> None:
        self.values.append(float(logs["loss"][0]))


def model(device: str) -> paddle.Model:
    paddle.set_device(device)
    rng = np.random.default_rng(1)
    net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
    for weight in net.parameters():
        weight.set_value((rng.standard_normal(weight.shape) * 0.3).astype("float32"))
    made = paddle.Model(net)
    made.prepare(paddle.optimizer.AdamW(1e-2, parameters=net.parameters()), nn.MSELoss())
    return made


def fit(made: paddle.Model, epochs: int) -> list[float]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((32, 8)).astype("float32")
    data = paddle.io.TensorDataset([paddle.to_tensor(x), paddle.to_tensor(x[:, :1] ** 2)])
    seen = Losses()
    made.fit(data, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=[seen])
    return seen.values


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_fit(counted) -> None:
    wanted = fit(model("cpu"), 2)
    counted()
    found = fit(model("sim:0"), 2)
    assert found == pytest.approx(wanted, abs=1e-5)
    tiers = counted().values()
    assert sum(sum(calls.values()) for calls in tiers) > 200
    assert sum(calls.get("cpu", 0) for calls in tiers) == 0


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
def test_resume_is_bit_equal(tmp_path: Path) -> None:
    whole = fit(model("sim:0"), 2)
    # A checkpoint has the optimizer's state by name; each guard begins to count anew, as a new process does.
    with paddle.utils.unique_name.guard():
        half = model("sim:0")
        fit(half, 1)
        half.save(str(tmp_path / "half"))
    with paddle.utils.unique_name.guard():
        resumed = model("sim:0")
        resumed.load(str(tmp_path / "half"))
        assert fit(resumed, 1) == whole[len(whole) // 2 :]
