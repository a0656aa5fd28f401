"""Saved nets, run by paddle.inference on the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import paddle
import pytest
from paddle import inference, nn

pytestmark = pytest.mark.slow

SIZE = 224


def saved(net: nn.Layer, folder: Path, shape: list[int | None]) -> str:
    net.eval()
    spec = [paddle.static.InputSpec(shape, "float32")]
    paddle.jit.save(paddle.jit.to_static(net, input_spec=spec, full_graph=True), str(folder / "net"))
    return str(folder / "net")


def predict(path: str, device: str, x: np.ndarray) -> np.ndarray:
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    if device != "cpu":
        config.enable_custom_device(device, 0)
    predictor = inference.create_predictor(config)
    predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x)
    predictor.run()
    return predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()


def close(found: np.ndarray, expected: np.ndarray) -> None:
    """The summation order differs, so errors are relative to the largest element."""
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_resnet50(rng: np.random.Generator, tmp_path: Path, counted) -> None:
    paddle.set_device("cpu")
    path = saved(paddle.vision.models.resnet50(), tmp_path, [None, 3, SIZE, SIZE])
    x = rng.standard_normal((2, 3, SIZE, SIZE)).astype("float32")
    expected = predict(path, "cpu", x)
    assert not any(name.startswith("phi::") for name in counted())
    found = predict(path, "sim", x)
    assert sum(sum(tiers.values()) for name, tiers in counted().items() if "conv2d" in name) >= 53
    close(found, expected)
    # With random weights two scores may differ by less than the tolerance, so values are compared, not ranks.
    top = np.argsort(-expected, axis=1)[:, :5]
    best = -np.sort(-found, axis=1)[:, :5]
    close(best, np.take_along_axis(expected, top, 1))


def test_save_and_load(rng: np.random.Generator, tmp_path: Path) -> None:
    """Trace, train and save on the device; load there, on the CPU, and with paddle.inference."""
    paddle.set_device("sim")
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    x = rng.standard_normal((5, 6)).astype("float32")
    static = paddle.jit.to_static(net, full_graph=True)
    update = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
    losses = []
    for _ in range(3):
        loss = (static(paddle.to_tensor(x)) ** 2).mean()
        loss.backward()
        update.step()
        update.clear_grad()
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True)
    expected = net(paddle.to_tensor(x)).numpy()
    path = saved(static, tmp_path, [None, 6])
    for device in ("sim", "cpu"):
        paddle.set_device(device)
        loaded = paddle.jit.load(path)
        loaded.eval()
        out = loaded(paddle.to_tensor(x))
        assert str(out.place).startswith(f"Place({device}")
        close(out.numpy(), expected)
        close(predict(path, device, x), expected)


def test_dynamic_batch_size(rng: np.random.Generator, tmp_path: Path) -> None:
    paddle.set_device("cpu")
    net = paddle.vision.models.LeNet()
    path = saved(net, tmp_path, [None, 1, 28, 28])
    config = inference.Config(f"{path}.json", f"{path}.pdiparams")
    config.disable_glog_info()
    config.enable_custom_device("sim", 0)
    predictor = inference.create_predictor(config)
    given = predictor.get_input_handle(predictor.get_input_names()[0])
    result = predictor.get_output_handle(predictor.get_output_names()[0])
    for count in (1, 7, 3):
        x = rng.standard_normal((count, 1, 28, 28)).astype("float32")
        given.copy_from_cpu(x)
        predictor.run()
        paddle.set_device("cpu")
        close(result.copy_to_cpu(), net(paddle.to_tensor(x)).numpy())
