"""Tools leave the capture of a device graph as it is: its calls have no values yet."""

from __future__ import annotations

from pathlib import Path

import torch

import hardpoint


def captured_square(x: torch.Tensor) -> tuple[torch.sim.Graph, torch.Tensor]:
    (x * x).log()  # warm-up
    graph = torch.sim.Graph()
    with torch.sim.graph(graph):
        y = (x * x).log()
    return graph, y


def test_captures_under_tools(tmp_path: Path) -> None:
    x = torch.ones(3, device="sim")
    dump, record = tmp_path / "calls.jsonl", tmp_path / "calls"
    with (
        hardpoint.compare("stop") as compared,
        hardpoint.watch_nan("stop") as watched,
        hardpoint.record(record, ops="mul") as recorded,
        hardpoint.record(tmp_path / "failing", ops="mul", calls="failing"),
        hardpoint.dump(3, ops="mul,log", file=dump),
    ):
        graph, y = captured_square(x)
        x.fill_(3)
        graph.replay()
        values = y.tolist()
    assert values == torch.full((3,), 9.0).log().tolist()
    assert compared.counts["wrong"] == 0
    assert compared.counts["not compared"] == 2  # the captured ones
    assert compared.counts["right"] >= 2
    assert not watched.produced
    assert [file.name for file in recorded.files] == ["aten.mul.Tensor-1.call"]
    assert recorded.skipped == {"in a graph capture": 1}
    assert [line.count('"values"') for line in dump.read_text().splitlines()] == [3, 2, 0, 0]


def test_make_graphed_callables_under_compare() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU()).to("sim")
    x = torch.randn(2, 4, device="sim", requires_grad=True)
    with torch.no_grad():
        expected = net(x).cpu()
    with hardpoint.compare("stop") as compared:
        graphed = torch.sim.make_graphed_callables(net, (x.detach().clone().requires_grad_(),))
        result = graphed(x)
        result.sum().backward()
    torch.testing.assert_close(result.detach().cpu(), expected)
    assert compared.counts["not compared"] > 0
    assert not compared.wrong
