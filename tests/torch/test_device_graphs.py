"""Device graphs: ``torch.<device>.graph`` and ``torch.accelerator.Graph``.

In this process sim captures by itself (HpGraphs). ``test_without_the_plugins_graphs`` runs the file once more on a sim
without that table, where Hardpoint records the launches.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

import hardpoint
from hardpoint._runtime import core
from hardpoint.torch import _adapter

BY_PLUGIN = os.environ.get("HARDPOINT_SIM_GRAPHS") != "0"


def captured(function, warm_up: int = 1, **options):
    for _ in range(warm_up):
        function()
    graph = torch.sim.Graph()
    with torch.sim.graph(graph, **options):
        results = function()
    return graph, results


def capture_into(graph, block) -> None:
    with torch.sim.graph(graph):
        block()


def test_work_runs_only_in_replays():
    total, step = torch.zeros(1000, device="sim"), torch.ones(1000, device="sim")
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        total += step
        assert torch.sim.is_current_stream_capturing()
    assert not torch.sim.is_current_stream_capturing()
    assert total.sum().item() == 0
    for _ in range(3):
        graph.replay()
    assert torch.equal(total.cpu(), torch.full((1000,), 3.0))
    step.fill_(10)
    graph.replay()
    assert torch.equal(total.cpu(), torch.full((1000,), 13.0))


def test_fills():
    """Paddle's memset, and the patterns of ``--guard``."""
    x = torch.zeros(100_000, dtype=torch.uint8, device="sim")
    step = torch.ones(100_000, dtype=torch.uint8, device="sim")

    def fill() -> None:
        x.add_(step)
        core.fill_memory("sim", 0, x.data_ptr() + 1, 7, x.numel() - 2)
        x.add_(step)

    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        fill()
    assert x.sum().item() == 0
    for replays in (1, 2):
        graph.replay()
        assert x[1:-1].eq(8).all().item()
        assert x[[0, -1]].tolist() == [2 * replays] * 2


def test_every_kind_of_step():
    """Vendor kernels (matmul, add), portable kernels, copies, and a non-contiguous output."""
    x, w = torch.randn(37, 29, device="sim"), torch.randn(29, 41, device="sim")

    def f():
        y = x @ w
        z = torch.softmax(y.t().clone() + 1, -1)
        return z.sum(0), torch.cat([y, y * 2])[3:], y.sort(-1)[0]

    graph, results = captured(f)
    for seed in range(2):
        x.copy_(torch.randn(37, 29, generator=torch.Generator().manual_seed(seed)))
        graph.replay()
        for got, want in zip(results, f(), strict=True):
            assert torch.equal(got.cpu(), want.cpu())


def make_net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.LayerNorm(64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 5)).to("sim")


def batches(count: int):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(16, 20, generator=generator), torch.randint(5, (16,), generator=generator)) for _ in range(count)
    ]


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=0.01, capturable=True),
    lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), capturable=True, fused=True),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
], ids=["adamw", "fused", "sgd"])  # fmt: skip
def test_training_step(make):
    """Forward with dropout, backward and optimizer in one graph: the losses of eager mode, bit by bit."""
    data = batches(6)

    def train(graphed: bool):
        net = make_net()
        update = make(net.parameters())
        torch.sim.manual_seed(7)
        x, y = torch.zeros(16, 20, device="sim"), torch.zeros(16, dtype=torch.int64, device="sim")

        def step():
            update.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            update.step()
            return loss.detach()

        losses, graph, loss = [], None, None
        for number, (inputs, labels) in enumerate(data):
            x.copy_(inputs)
            y.copy_(labels)
            if not graphed or number < 2:
                losses.append(step().item())
                continue
            if graph is None:
                graph, loss = captured(step, warm_up=0)
            graph.replay()
            losses.append(loss.item())
        return losses, [p.detach().cpu() for p in net.parameters()]

    (eager, eager_parameters), (replayed, parameters) = train(False), train(True)
    assert replayed == eager
    assert len(set(eager)) == len(eager)
    assert all(torch.equal(a, b) for a, b in zip(parameters, eager_parameters, strict=True))


def test_random_numbers_advance_as_in_eager_mode():
    x = torch.empty(100, device="sim")

    def draw():
        return x.normal_().clone(), torch.rand(7, device="sim"), nn.functional.dropout(torch.ones(64, device="sim"))

    torch.sim.manual_seed(3)
    graph, results = captured(draw)
    torch.sim.manual_seed(5)
    expected = [[value.cpu() for value in draw()] for _ in range(3)]
    torch.sim.manual_seed(5)
    for want in expected:
        graph.replay()
        assert all(torch.equal(got.cpu(), w) for got, w in zip(results, want, strict=True))
    assert not torch.equal(expected[0][0], expected[1][0])
    # The next eager draw continues where the replays ended.
    after = torch.rand(5, device="sim").cpu()
    torch.sim.manual_seed(5)
    for _ in range(3):
        draw()
    assert torch.equal(torch.rand(5, device="sim").cpu(), after)


def test_a_capture_draws_nothing():
    torch.sim.manual_seed(11)
    want = torch.rand(4, device="sim").cpu()
    torch.sim.manual_seed(11)
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        torch.rand(1000, device="sim")
    assert torch.equal(torch.rand(4, device="sim").cpu(), want)


library = torch.library.Library("hpgraphtest", "DEF")
library.define("on_cpu(Tensor x) -> Tensor")
library.impl("on_cpu", lambda x: x * 3, "CPU")

REFUSED = {
    "item": (lambda x: x.sum().item(), "aten::_local_scalar_dense"),
    "cpu": (lambda x: x.cpu(), "aten::copy_: it copies to the host"),
    "from the host": (lambda x: x.copy_(torch.ones(8)), "aten::copy_: it copies from the host"),
    "synchronize": (lambda x: torch.sim.synchronize(), "a synchronization: it waits for the device"),
    "stream": (lambda x: torch.sim.current_stream().synchronize(), "a synchronization"),
    "nonzero": (lambda x: x.nonzero(), "aten::nonzero"),
    "cpu tier": (lambda x: torch.ops.hpgraphtest.on_cpu(x), "hpgraphtest::on_cpu: it runs on the CPU"),
    "generator": (lambda x: x.normal_(generator=torch.Generator("sim")), "generator argument"),
    "other device": (lambda x: x.to("sim:1"), "it copies between devices"),
    "nested replay": (lambda x: NESTED[0].replay(), "graphs cannot be nested"),
}  # fmt: skip
NESTED: list = []


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    """One message that names the operator; the device, the stream and the generator are as before."""
    function, message = REFUSED[name]
    x = torch.ones(8, device="sim")
    if name == "nested replay":
        NESTED.append(captured(lambda: x + 1)[0])
    torch.sim.manual_seed(2)
    graph = torch.sim.Graph()

    def block():
        y = x * 2
        torch.rand(3, device="sim")
        function(y)

    with pytest.raises(RuntimeError, match="a graph capture cannot contain") as raised:
        capture_into(graph, block)
    assert message in str(raised.value)
    NESTED.clear()
    assert not torch.sim.is_current_stream_capturing()
    assert torch.sim.default_generators[0].get_offset() == 0
    assert torch.equal((x + 1).cpu(), torch.full((8,), 2.0))
    with pytest.raises(RuntimeError, match="capture a graph first"):
        graph.replay()
    with torch.sim.graph(graph):
        x += 1
    graph.replay()
    assert torch.equal(x.cpu(), torch.full((8,), 2.0))


def test_a_refusal_that_the_block_swallows():
    x = torch.ones(8, device="sim")

    def block():
        with contextlib.suppress(RuntimeError):
            x.sum().item()
        x.add_(1)

    with pytest.raises(RuntimeError, match="aten::_local_scalar_dense"):
        capture_into(torch.sim.Graph(), block)
    assert x.sum().item() == 8


def test_an_error_in_the_block():
    def block():
        torch.ones(3, device="sim")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        capture_into(torch.sim.Graph(), block)
    assert not torch.sim.is_current_stream_capturing()


def test_misuse():
    graph = torch.sim.Graph()
    with pytest.raises(RuntimeError, match="the default stream cannot capture"):
        graph.capture_begin()
    with pytest.raises(RuntimeError, match="capture_end without capture_begin"):
        graph.capture_end()
    with torch.sim.graph(graph):
        pass
    with pytest.raises(RuntimeError, match=r"call reset\(\)"), torch.sim.graph(graph):
        pass
    graph.reset()
    with torch.sim.graph(graph), pytest.raises(RuntimeError, match="already captures a graph"):
        torch.sim.Graph().capture_begin()


def test_private_memory():
    """Memory of a capture is not used by anything else while the graph lives, and is returned afterwards."""
    x = torch.arange(1 << 18, device="sim", dtype=torch.float32)
    torch.sim.synchronize()
    torch.sim.empty_cache()
    before = torch.sim.memory_reserved()
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        y = (x + 1) * 2  # the sum is freed at once, to the graph's pool
    addresses = [segment["address"] for segment in torch.sim.memory_snapshot()]
    torch.sim.empty_cache()
    assert [segment["address"] for segment in torch.sim.memory_snapshot()] == addresses
    stream = torch.sim.graph.default_capture_stream
    with torch.sim.stream(stream):
        others = [torch.zeros(1 << 18, device="sim") for _ in range(8)]
    torch.sim.synchronize()
    graph.replay()
    torch.sim.synchronize()
    assert all(other.sum().item() == 0 for other in others)
    assert torch.equal(y.cpu(), (x.cpu() + 1) * 2)
    del graph, others
    value = y.cpu()
    torch.sim.empty_cache()
    assert torch.equal(y.cpu(), value)
    del y
    torch.sim.synchronize()
    torch.sim.empty_cache()
    assert torch.sim.memory_reserved() == before


def test_shared_pool():
    x = torch.ones(1 << 20, device="sim")
    first, second = torch.sim.Graph(), torch.sim.Graph()
    with torch.sim.graph(first):
        y = x * 2 + 1
    reserved = torch.sim.memory_reserved()
    with torch.sim.graph(second, pool=first.pool()):
        z = y * 2 + 1  # reuses the memory of the first product
    assert first.pool() == second.pool()
    assert torch.sim.memory_reserved() <= reserved
    first.replay()
    second.replay()
    assert torch.equal(z.cpu(), torch.full((1 << 20,), 7.0))
    assert torch.sim.graph_pool_handle() != torch.sim.graph_pool_handle()


def test_streams_that_take_part():
    x = torch.ones(1 << 16, device="sim")
    side = torch.sim.Stream()

    def f():
        y = x * 2
        side.wait_stream(torch.sim.current_stream())
        with torch.sim.stream(side):
            z = y + 1
        torch.sim.current_stream().wait_stream(side)
        return z * 10

    graph, result = captured(f)
    x.fill_(4)
    graph.replay()
    assert torch.equal(result.cpu(), torch.full((1 << 16,), 90.0))
    with torch.sim.stream(side):  # works on its own again
        assert (x + 1).sum().item() == 5 * (1 << 16)


def test_replays_on_several_streams_are_ordered():
    x = torch.zeros(1 << 18, device="sim")
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        x += 1
        x *= 2
    streams = [torch.sim.Stream() for _ in range(3)]
    torch.sim.synchronize()
    for k in range(6):
        with torch.sim.stream(streams[k % 3]):
            graph.replay()
    torch.sim.synchronize()
    assert torch.equal(x.cpu(), torch.full((1 << 18,), 126.0))


def test_events_in_a_capture():
    x = torch.ones(8, device="sim")
    before = torch.sim.current_stream().record_event()
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        torch.sim.current_stream().wait_event(before)
        event = torch.sim.current_stream().record_event(torch.sim.Event(enable_timing=True))
        x += 1
    assert event.query()
    event.synchronize()
    with pytest.raises(RuntimeError, match="recorded in a graph capture"):
        event.elapsed_time(event)
    graph.replay()
    assert x.sum().item() == 16


def test_other_threads_and_streams_go_on():
    from threading import Thread

    x, seen = torch.ones(100, device="sim"), []
    graph = torch.sim.Graph()

    def work():
        seen.append((x * 3).sum().item())
        torch.sim.synchronize()

    with torch.sim.graph(graph):
        x += 1
        thread = Thread(target=work)
        thread.start()
        thread.join()
    assert seen == [300]
    graph.replay()
    assert x.sum().item() == 200


@pytest.mark.parametrize("same_stream", [True, False])
def test_a_fault_is_reported_after_the_replay(same_stream):
    table, index = torch.ones(4, 3, device="sim"), torch.tensor([1, 2], device="sim")
    stream = torch.sim.Stream()
    graph = torch.sim.Graph()
    with torch.sim.graph(graph, stream=stream):
        rows = table.index_select(0, index)
    with torch.sim.stream(stream if same_stream else torch.sim.Stream()):
        graph.replay()
        torch.sim.current_stream().synchronize()
        index.fill_(9)
        torch.sim.synchronize()
        graph.replay()
        with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension with size 4"):
            torch.sim.current_stream().synchronize()
        index.fill_(3)
        torch.sim.synchronize()
        graph.replay()
        torch.sim.current_stream().synchronize()
    assert torch.equal(rows.cpu(), torch.ones(2, 3))


def test_steps_as_text(tmp_path):
    x = torch.ones(64, device="sim")
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        y = torch.exp(x)
        y.uniform_()
        y += 1
    with pytest.raises(RuntimeError, match="enable_debug_mode"):
        graph.debug_dump(str(tmp_path / "graph.txt"))
    graph.enable_debug_mode()
    graph.debug_dump(str(tmp_path / "graph.txt"))
    lines = (tmp_path / "graph.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[1] == "aten::uniform_ (portable), random"
    if BY_PLUGIN:  # a random launch gets new arguments each time: it splits the plug-in's graph
        assert lines[0] == lines[2] == "graph of the plug-in"
    else:
        assert lines[0] == "aten::exp (portable)"
        assert lines[2].startswith("aten::add_.Tensor (")


def test_who_captures():
    assert ("graphs" in _adapter.load().extensions()) is BY_PLUGIN


def test_python_kernel():
    """A kernel in Python runs at each replay, and never on the tensors of the capture."""
    x = torch.ones(4, device="sim")
    seen = []

    @hardpoint.kernel("exp")
    def exp(out, self):
        seen.append(1)
        raise NotImplementedError("no")

    with exp:
        graph, y = captured(lambda: torch.exp(x))
        calls = len(seen)
        graph.replay()
    assert len(seen) == calls > 0  # declined when it ran and when it was captured: the portable kernel is in the graph
    assert torch.equal(y.cpu(), torch.exp(torch.ones(4)))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_make_graphed_callables(accumulate):
    data = batches(4)

    def train(graphed: bool):
        net = make_net()
        update = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.sim.manual_seed(3)
        if graphed:
            sample = torch.randn(16, 20, device="sim")
            net = torch.sim.make_graphed_callables(net, (sample,))
        torch.sim.manual_seed(3)
        losses = []
        for number, (x, y) in enumerate(data):
            loss = nn.functional.cross_entropy(net(x.to("sim")), y.to("sim"))
            loss.backward()
            losses.append(loss.item())
            if number % accumulate == accumulate - 1:
                update.step()
                update.zero_grad()
        net.eval()
        return losses, net(data[0][0].to("sim")).cpu()

    (eager, expected), (replayed, got) = train(False), train(True)
    assert replayed == eager
    assert torch.equal(got, expected)
    gc.collect()


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="torch.accelerator.Graph is new in torch 2.13")
def test_accelerator_graph(tmp_path):
    x = torch.zeros(2000, device="sim")
    graph, stream = torch.accelerator.Graph(), torch.Stream("sim")
    with stream, graph:
        x += 1
        x.add_(torch.rand(2000, device="sim") * 0)
    torch.accelerator.synchronize()
    graph.replay()
    graph.replay()
    assert torch.equal(x.cpu(), torch.full((2000,), 2.0))
    assert graph.pool() != (0, 0)
    graph.enable_debug_mode()
    graph.debug_dump(str(tmp_path / "graph.txt"))
    assert "random" in (tmp_path / "graph.txt").read_text()
    graph.reset()
    with pytest.raises(RuntimeError, match="aten::_local_scalar_dense"), stream, graph:
        x.sum().item()
    graph.reset()
    assert torch.equal((x + 1).cpu(), torch.full((2000,), 3.0))


@pytest.mark.slow
@pytest.mark.skipif(not BY_PLUGIN, reason="this is that run")
def test_without_the_plugins_graphs():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", __file__]
    done = subprocess.run(
        command, env={**os.environ, "HARDPOINT_SIM_GRAPHS": "0"}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
