"""Recurrent nets: results and gradients against the CPU, computed on the device."""

from __future__ import annotations

import numpy as np
import paddle
import pytest
from comparison import arrays, assert_on_device, numbers

KINDS = {
    "LSTM": paddle.nn.LSTM,
    "GRU": paddle.nn.GRU,
    "RNN": paddle.nn.SimpleRNN,
    "RNN of relu": lambda *a, **k: paddle.nn.SimpleRNN(*a, activation="relu", **k),
}
NETS = {
    "one layer": {},
    "layers": {"num_layers": 3},
    "both directions": {"direction": "bidirect"},
    "layers in both directions": {"num_layers": 2, "direction": "bidirect", "time_major": True},
}
INPUT, WIDTH, BATCH, TIME = 5, 7, 3, 4


def weights_of(make):
    paddle.set_device("cpu")
    return {name: arrays(value)[0] for name, value in make().state_dict().items()}


def in_dtype(net, dtype):
    """Convert a net's weights: Paddle cannot convert a recurrent net or create one in 16 bits."""
    if dtype != "float32":
        net._all_weights = [paddle.to_tensor(weight.astype(dtype), stop_gradient=False) for weight in net._all_weights]
    return net


def run_net(make, weights, device, inputs, dtype="float32", lengths=None, last=0.3):
    """Output, final states and all gradients of a net on a device."""
    paddle.set_device(device)
    net = make()
    net.set_state_dict({name: paddle.to_tensor(value) for name, value in weights.items()})
    net = in_dtype(net, dtype)
    x, *states = [paddle.to_tensor(given).astype(dtype) for given in inputs]
    for tensor in (x, *states):
        tensor.stop_gradient = False
    given = None if not states else tuple(states) if len(states) > 1 else states[0]
    out, end = net(x, given, None if lengths is None else paddle.to_tensor(lengths))
    ends = list(end) if isinstance(end, (tuple, list)) else [end]
    loss = (out * paddle.to_tensor(np.linspace(0.5, 1.5, out.size).reshape(out.shape)).astype(dtype)).sum()
    for each in ends:
        loss = loss + last * each.square().sum()
    loss.backward()
    found = [array for tensor in (out, *ends) for array in arrays(tensor)]
    return found + [arrays(t.grad)[0] for t in (x, *states, *net._all_weights) if t.grad is not None]


def assert_close(found, expected, tolerance):
    assert len(found) == len(expected)
    for f, e in zip(found, expected, strict=True):
        assert f.shape == e.shape
        np.testing.assert_allclose(f.astype(e.dtype), e, rtol=tolerance, atol=tolerance * max(1.0, np.abs(e).max()))


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent_net(rng, counted, kind, net):
    def make():
        return KINDS[kind](INPUT, WIDTH, **NETS[net])

    weights = weights_of(make)
    directions = 2 if "both" in net else 1
    leading = NETS[net].get("num_layers", 1) * directions
    shapes = [(BATCH, TIME, INPUT), (leading, BATCH, WIDTH), (leading, BATCH, WIDTH)]
    if NETS[net].get("time_major"):
        shapes[0] = (TIME, BATCH, INPUT)
    inputs = numbers(rng, *shapes[: 3 if kind == "LSTM" else 2])
    lengths = np.array([TIME, 1, 3], "int32")
    # Paddle's CPU kernel ignores the initial states of the backward direction when lengths are given.
    for given, ends in ((inputs[:1], None), (inputs, None), (inputs[: 1 if directions == 2 else 3], lengths)):
        expected = run_net(make, weights, "cpu", given, lengths=ends)
        assert_close(run_net(make, weights, "sim:0", given, lengths=ends), expected, 2e-5)
    assert counted()["phi::rnn"] == counted()["phi::rnn_grad"] == {"decomposition": 3}
    assert_on_device()


def test_states_and_lengths_in_both_directions(rng, counted):
    net = in_dtype(paddle.nn.LSTM(INPUT, WIDTH, direction="bidirect"), "float64")
    given = numbers(rng, (BATCH, TIME, INPUT), *[(2, BATCH, WIDTH)] * 2)
    x, *states = [paddle.to_tensor(n.astype("float64")) for n in given]
    lengths = paddle.to_tensor(np.array([TIME, 1, 3], "int32"))

    def loss():
        out, (hidden, cell) = net(x, tuple(states), lengths)
        return out.square().sum() + hidden.sum() + cell.square().sum()

    loss().backward()
    for parameter in net._all_weights:
        along = numbers(rng, parameter.shape)[0].astype("float64")
        old, around = parameter.numpy(), []
        for sign in (1, -1):
            parameter.set_value(old + sign * 1e-6 * along)
            around.append(loss().item())
        parameter.set_value(old)
        assert np.isclose((around[0] - around[1]) / 2e-6, (parameter.grad.numpy() * along).sum(), rtol=1e-6, atol=1e-6)
    assert_on_device()


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float16", 2e-2), ("bfloat16", 1e-1)])
def test_other_dtypes(rng, counted, dtype, tolerance):
    def make():
        return paddle.nn.LSTM(INPUT, WIDTH, 2, "bidirect")

    weights = weights_of(make)
    inputs = numbers(rng, (BATCH, TIME, INPUT))
    wide = "float64" if dtype == "float64" else "float32"
    assert_close(run_net(make, weights, "sim:0", inputs, dtype), run_net(make, weights, "cpu", inputs, wide), tolerance)
    assert_on_device()


def test_dropout_between_layers(rng, counted):
    net = paddle.nn.GRU(INPUT, 40, 3, dropout=0.5)
    x = paddle.to_tensor(numbers(rng, (8, TIME, INPUT))[0], stop_gradient=False)
    first, second = net(x)[0], net(x)[0]
    assert not np.allclose(first.numpy(), second.numpy())
    # Each call has its own mask: the gradient uses the first call's mask, even after a second call.
    paddle.seed(3)
    (expected,) = paddle.grad(net(x)[0].sum(), x)
    paddle.seed(3)
    out = net(x)[0]
    net(x)
    (found,) = paddle.grad(out.sum(), x)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())
    # Finite differences, with the same seed and so the same mask.
    step = numbers(rng, x.shape)[0]
    around = []
    for sign in (1, -1):
        paddle.seed(3)
        around.append(net(x + sign * 1e-2 * paddle.to_tensor(step))[0].sum().item())
    assert np.isclose((around[0] - around[1]) / 2e-2, (found.numpy() * step).sum(), rtol=5e-2, atol=5e-2)
    net.eval()
    np.testing.assert_array_equal(net(x)[0].numpy(), net(x)[0].numpy())
    assert_on_device()


def test_training_on_the_device(rng, counted):
    x = rng.integers(0, 12, (32, 6)).astype("int64")
    y = (x[:, :1] > 5).astype("int64")  # whether the first token is large
    embedding, lstm, head = paddle.nn.Embedding(12, 8), paddle.nn.LSTM(8, 16), paddle.nn.Linear(16, 2)
    parameters = [p for layer in (embedding, lstm, head) for p in layer.parameters()]
    optimizer = paddle.optimizer.Adam(0.02, parameters=parameters)
    losses = []
    for _ in range(25):
        _out, (hidden, _) = lstm(embedding(paddle.to_tensor(x)))
        loss = paddle.nn.functional.cross_entropy(head(hidden[-1]), paddle.to_tensor(y))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert_on_device()


class Tagger(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.lstm = paddle.nn.LSTM(INPUT, WIDTH, 2, "bidirect")
        self.head = paddle.nn.Linear(2 * WIDTH, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def test_static_graph(rng, counted):
    net = Tagger()
    x = paddle.to_tensor(numbers(rng, (BATCH, TIME, INPUT))[0])
    results = []
    for run in (net, paddle.jit.to_static(net, full_graph=True)):
        out = run(x)
        out.square().sum().backward()
        results.append([out.numpy(), *(p.grad.numpy() for p in net.parameters())])
        net.clear_gradients()
    for eager, graph in zip(*results, strict=True):
        np.testing.assert_array_equal(graph, eager)
    assert counted()["phi::rnn"] == counted()["phi::rnn_grad"] == {"decomposition": 2}
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_flattened_weights(dtype):
    paddle.set_default_dtype(dtype)
    try:
        net = paddle.nn.LSTM(INPUT, WIDTH)
    finally:
        paddle.set_default_dtype("float32")
    (whole,) = net._flat_weight
    assert str(whole.place) == "Place(sim:0)"
    for weight in net.parameters():
        assert str(weight.place) == "Place(sim:0)"
        assert whole.data_ptr() <= weight.data_ptr() < whole.data_ptr() + whole.size * whole.element_size()
    before = arrays(whole)[0]
    with paddle.no_grad():
        net.weight_hh_l0.zero_()
    assert (arrays(whole)[0] == 0).sum() >= net.weight_hh_l0.size > (before == 0).sum()
