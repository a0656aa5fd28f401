"""``paddle.device.cuda.graphs.CUDAGraph`` on the device: core's device graphs behind Paddle's graph callbacks."""

from __future__ import annotations

import contextlib

import numpy as np
import paddle
import pytest
from paddle import nn
from paddle.device.cuda.graphs import CUDAGraph

import hardpoint


def capture(function):
    graph = CUDAGraph(paddle.CustomPlace("sim", 0))
    paddle.device.synchronize()
    graph.capture_begin()
    try:
        result = function()
    finally:
        graph.capture_end()
    return graph, result


def test_replay():
    x = paddle.ones([4, 50])
    w = paddle.to_tensor(np.arange(100, dtype="float32").reshape(50, 2))

    def f():
        return paddle.nn.functional.softmax(x @ w + 1.0, axis=-1).sum(axis=0)

    f()
    graph, result = capture(f)
    for value in (0.001, 0.002):
        x.fill_(value)
        graph.replay()
        np.testing.assert_array_equal(result.numpy(), f().numpy())
    graph.reset()


def test_random_numbers_advance():
    x = paddle.ones([1000])
    nn.functional.dropout(x, 0.5)
    graph, result = capture(lambda: nn.functional.dropout(x, 0.5))
    paddle.seed(7)
    expected = [nn.functional.dropout(x, 0.5).numpy() for _ in range(3)]
    paddle.seed(7)
    for want in expected:
        graph.replay()
        np.testing.assert_array_equal(result.numpy(), want)
    assert not np.array_equal(expected[0], expected[1])
    graph.reset()


def test_a_synchronization_is_refused():
    x = paddle.ones([8])
    swallowed = CUDAGraph(paddle.CustomPlace("sim", 0))
    swallowed.capture_begin()
    y = x * 2
    with contextlib.suppress(Exception):
        y.numpy()
    swallowed.capture_end()
    with pytest.raises(Exception, match="a graph capture cannot contain"):
        swallowed.replay()
    swallowed.reset()
    with pytest.raises(Exception, match="a graph capture cannot contain"):
        capture(lambda: (x * 2).numpy())
    np.testing.assert_array_equal((x + 1).numpy(), np.full(8, 2, "float32"))
    graph, result = capture(lambda: x * 3)
    graph.replay()
    np.testing.assert_array_equal(result.numpy(), np.full(8, 3, "float32"))
    graph.reset()


def test_tools_leave_captures_as_they_are(tmp_path):
    x = paddle.ones([4])

    def f():
        return x * x + 1.0

    f()
    with (
        hardpoint.compare("stop") as compared,
        hardpoint.watch_nan("stop") as watched,
        hardpoint.record(tmp_path, ops="phi::multiply") as recorded,
    ):
        graph, result = capture(f)
    x.fill_(3.0)
    graph.replay()
    np.testing.assert_array_equal(result.numpy(), np.full(4, 10, "float32"))
    graph.reset()
    assert compared.counts["not compared"] >= 2
    assert not compared.wrong
    assert not watched.produced
    assert recorded.files == []
    assert recorded.skipped == {"in a graph capture": 1}


def test_a_graph_may_live_until_the_program_ends(run_python):
    done = run_python(
        """
        import paddle
        from paddle.device.cuda.graphs import CUDAGraph

        place = paddle.CustomPlace("sim", 0)
        paddle.set_device("sim")
        x = paddle.ones([4])
        captured, unused = CUDAGraph(place), CUDAGraph(place)
        captured.capture_begin()
        y = x + 1
        captured.capture_end()
        captured.replay()
        print(y.numpy().sum())
        """
    )
    assert done.stdout.splitlines()[-1] == "8.0"
