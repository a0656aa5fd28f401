"""Static graphs, in which kernels are called through a context, and whole nets."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from comparison import assert_on_device
from paddle import nn

import hardpoint

IMAGES, SEQUENCES = (2, 3, 16, 16), (2, 5, 16)
NETS = {
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2), nn.Flatten(), nn.Linear(196, 3)
        ),
        IMAGES,
    ),
    "transformer": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0), 2),
        SEQUENCES,
    ),
    "lstm": (lambda: nn.Sequential(nn.LSTM(16, 8)), SEQUENCES),
}


def train(name: str, device: str, static: bool, seed: int) -> list[np.ndarray]:
    paddle.set_device(device)
    rng = np.random.default_rng(seed)
    make, shape = NETS[name]
    net = make()
    for parameter in net.parameters():
        parameter.set_value((rng.standard_normal(parameter.shape) * 0.2).astype("float32"))

    def forward(x):
        out = net(x)
        out = out[0] if isinstance(out, tuple) else out
        return (out * out).mean()

    step = paddle.jit.to_static(forward, full_graph=True) if static else forward
    optimizer = paddle.optimizer.Momentum(0.05, parameters=net.parameters())
    x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
    losses, gradients = [], []
    for _ in range(3):
        loss = step(x)
        loss.backward()
        gradients = [p.grad.numpy() for p in net.parameters() if p.grad is not None]
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.numpy())
    return [np.array(losses), *gradients]


@pytest.mark.parametrize("static", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["dynamic", "static"])
@pytest.mark.parametrize("name", NETS)
def test_training_equals_the_cpu(seed, name, static):
    expected, found = train(name, "cpu", False, seed), train(name, "sim", static, seed)
    assert len(expected) == len(found)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    # Some gradients cancel out to rounding errors, so errors are relative to the largest gradient.
    largest = max(float(np.abs(g).max()) for g in expected[1:])
    for f, e in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-4, atol=1e-5 * largest)


def test_mixed_precision(seed, counted):
    """Convolutions and products run in 16 bits in any tier; losses are close to the CPU's."""
    make, shape = NETS["convolutions"]
    losses = {}
    for device in ("cpu", "sim"):
        paddle.set_device(device)
        rng = np.random.default_rng(seed)
        net = make()
        for parameter in net.parameters():
            parameter.set_value((rng.standard_normal(parameter.shape) * 0.2).astype("float32"))
        x = paddle.to_tensor(rng.standard_normal(shape).astype("float32"))
        with paddle.amp.auto_cast(enable=device == "sim", dtype="float16"):
            out = nn.functional.conv2d(x, net[0].weight)  # without a bias, which Paddle adds in float32
            assert out.dtype == (paddle.float16 if device == "sim" else paddle.float32)
            loss = (net(x).astype("float32") ** 2).mean()
        loss.backward()
        assert all(p.grad.dtype == paddle.float32 for p in net.parameters() if p.grad is not None)
        losses[device] = float(loss)
    assert losses["sim"] == pytest.approx(losses["cpu"], rel=1e-2)
    assert "cast" in " ".join(counted())


@pytest.mark.slow
def test_inference(rng, tmp_path, counted):
    from paddle import inference

    x = rng.standard_normal((2, 1, 28, 28)).astype("float32")
    net = paddle.vision.models.LeNet()
    net.eval()
    spec = [paddle.static.InputSpec([None, 1, 28, 28], "float32")]
    paddle.jit.save(paddle.jit.to_static(net, input_spec=spec), str(tmp_path / "net"))
    expected = net(paddle.to_tensor(x)).numpy()
    config = inference.Config(str(tmp_path / "net.json"), str(tmp_path / "net.pdiparams"))
    config.enable_custom_device("sim", 0)
    counted_before = counted().get("phi::matmul", {}).get("vendor", 0)
    predictor = inference.create_predictor(config)
    predictor.get_input_handle(predictor.get_input_names()[0]).copy_from_cpu(x)
    predictor.run()
    found = predictor.get_output_handle(predictor.get_output_names()[0]).copy_to_cpu()
    # The summation order differs.
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert counted()["phi::matmul"]["vendor"] == counted_before + 3


#: Views in eager mode, copies in graphs: name -> function of a 4 x 6 tensor.
VIEWS = {
    "transpose": lambda x: paddle.transpose(x, [1, 0]),
    "slice": lambda x: x[1:, 2:],
    "slice with a column": lambda x: x[:, 3],
    "strided_slice": lambda x: x[::2, ::-2],
    "squeeze": lambda x: paddle.squeeze(x.reshape([4, 1, 6]), 1),
    "unsqueeze": lambda x: paddle.unsqueeze(x, [0, 2]),
    "unbind": lambda x: paddle.unbind(x, 1)[2],
    "diagonal": lambda x: paddle.diagonal(x, 1),
}
COMPLEX_VIEWS = {
    "real": lambda x: paddle.real(paddle.complex(x, 2 * x[:1])),
    "imag": lambda x: paddle.imag(paddle.complex(x, 2 * x[:1])),
    "as_complex": lambda x: paddle.as_real(paddle.as_complex(x.reshape([4, 3, 2]))),
}


def run_static(function, x: np.ndarray, place) -> list[np.ndarray]:
    """The result and the gradient of x in a static graph."""
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.scope_guard(paddle.static.Scope()), paddle.static.program_guard(program):
            fed = paddle.static.data("x", list(x.shape), str(x.dtype))
            fed.stop_gradient = False
            out = function(fed * fed)
            gradients = paddle.static.gradients([out * out], [fed])
            return paddle.static.Executor(place).run(program, feed={"x": x}, fetch_list=[out, *gradients])
    finally:
        paddle.disable_static()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", [*VIEWS, *COMPLEX_VIEWS])
def test_views_in_a_graph(rng, counted, name, dtype):
    """The device has kernels for them: a 16-bit float has none on the CPU."""
    if dtype == "float16" and name in COMPLEX_VIEWS:
        pytest.skip("there are no complex numbers of 16-bit floats")
    function = {**VIEWS, **COMPLEX_VIEWS}[name]
    x = (rng.integers(1, 32, (4, 6)) / 16).astype(dtype)
    reference = x.astype("float32") if dtype == "float16" else x
    expected = run_static(function, reference, paddle.CPUPlace())
    hardpoint.reset_counters()
    found = run_static(function, x, paddle.CustomPlace("sim", 0))
    tolerance = {"float16": 4e-3, "float32": 1e-6, "float64": 1e-12}[dtype]  # three roundings
    for f, e in zip(found, expected, strict=True):
        assert (f.dtype, f.shape) == (x.dtype, e.shape)
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance)
    assert any(f"phi::{name.split()[0]}" in operator for operator in counted())  # not Paddle's own fallback
    assert_on_device()
