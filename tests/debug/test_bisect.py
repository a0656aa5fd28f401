"""``hardpoint bisect``: the search with made-up runs, and a real one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch  # noqa: F401  (knows which operators are random)
from plugin_tools import ROOT

from hardpoint.debug._bisect.history import History, Outcome, SearchError, diverges, find_metric
from hardpoint.debug._bisect.minimize import minimal_subset, smallest_prefix
from hardpoint.debug._bisect.trial import Selection, _is_random
from hardpoint.debug.bisect import Bisect, Culprit


@pytest.mark.parametrize("culprits", [{3}, {0}, {9}, {2, 7}, {0, 4, 9}])
def test_minimal_subset(culprits: set[int]) -> None:
    tried: list[list[int]] = []

    def fails(some: list[int]) -> bool:
        tried.append(some)
        return culprits <= set(some)

    assert set(minimal_subset(range(10), fails)) == culprits
    if len(culprits) == 1:
        assert len(tried) <= 8  # two for each halving


def test_minimal_subset_of_alternatives() -> None:
    assert minimal_subset("abcdef", lambda some: "b" in some or "e" in some) in (["b"], ["e"])


@pytest.mark.parametrize("first", [1, 2, 6, 7])
def test_smallest_prefix(first: int) -> None:
    assert smallest_prefix(7, lambda last: last >= first) == first


def test_metrics() -> None:
    output = "epoch 1, loss 0.75\nepoch 2, loss 2.5e-1\ndone in 3 s\n"
    assert find_metric(output, r"loss (\S+)") == 0.25
    assert find_metric(output, r"loss \S+") == 0.25
    assert find_metric(output, "") == 3
    assert find_metric("nothing", "") is None
    assert find_metric("accuracy: nan", "") != find_metric("accuracy: nan", "")
    with pytest.raises(SearchError, match="'done', which is not a number"):
        find_metric(output, r"(done)")


def test_divergence() -> None:
    reference = Outcome(0, 2.0)
    for outcome, expected in (
        (Outcome(0, 2.01), False),
        (Outcome(0, 2.03), True),
        (Outcome(0, float("nan")), True),
        (Outcome(0, float("inf")), True),
        (Outcome(0, None), True),
        (Outcome(1, 2.0), True),
    ):
        assert diverges(outcome, reference, 0.01) is expected, outcome
    assert not diverges(Outcome(0, float("nan")), Outcome(0, float("nan")), 0.01)
    assert not diverges(Outcome(3, None), Outcome(3, None), 0.01)


OPERATORS = {"aten::mul.Tensor": 9, "aten::add.Tensor": 8, "aten::mm": 7, "aten::relu": 6, "aten::rand": 1}
MODULES = {"Net.a": 3, "Net.b": 3, "": 1}


class Search:
    """A search whose runs are computed: they diverge if mm runs on the device, in Net.b, in step 3 of 5."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.executed: list[Selection] = []
        self.lines: list[str] = []
        self.stop_after = 1000
        (folder / "train.py").write_text("")
        monkeypatch.setattr(History, "_execute", self._execute)

    def _execute(self, selection: Selection, located: list[str], save: str) -> Outcome:
        if len(self.executed) == self.stop_after:
            raise KeyboardInterrupt
        self.executed.append(selection)
        chosen = list(OPERATORS) if selection.operators is None else selection.operators
        bad = (
            "aten::mm" in chosen
            and (selection.modules is None or "Net.b" in selection.modules)
            and (selection.last_step is None or selection.last_step >= 3)
        )
        modules, steps = (MODULES, 5) if located else ({}, 0)
        used = {name: count for name, count in OPERATORS.items() if name in chosen}
        return Outcome(0, 1.5 if bad else 1.0, used, ["aten::rand"], modules, steps, f"{save}/call" if save else "")

    def run(self) -> Culprit:
        return Bisect(self.folder / "train.py", [], state=self.folder / "state.json", say=self.lines.append).search()


def test_the_search_finds_operator_module_and_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    found = search.run()
    assert (found.operators, found.modules, found.step) == (["aten::mm"], ["Net.b"], 3)
    assert found.saved == "train.calls/call"
    assert all("aten::rand" not in (selection.operators or []) for selection in search.executed)
    # Every run is printed, with its number and verdict.
    trials = [line for line in search.lines if line[:3].strip().isdigit()]
    assert len(trials) == len(search.executed) - 1  # the last one only saves the call
    assert any("diverges" in line for line in trials)
    assert any("agrees" in line for line in trials)


def test_an_interrupted_search_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Search(tmp_path, monkeypatch)
    whole.run()
    (tmp_path / "state.json").unlink()
    first = Search(tmp_path, monkeypatch)
    first.stop_after = 6
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = Search(tmp_path, monkeypatch)
    assert second.run().operators == ["aten::mm"]
    assert first.executed + second.executed == whole.executed
    assert "continuing with 6 runs" in second.lines[0]
    # A finished search starts over: its kernels may have been mended.
    again = Search(tmp_path, monkeypatch)
    again.run()
    assert again.executed == whole.executed
    assert "was finished: starting over" in again.lines[0]
    # Another version of the program starts over, too.
    (tmp_path / "state.json").unlink()
    third = Search(tmp_path, monkeypatch)
    third.stop_after = 6
    with pytest.raises(KeyboardInterrupt):
        third.run()
    third = Search(tmp_path, monkeypatch)
    (tmp_path / "train.py").write_text("# changed")
    third.run()
    assert "starting over" in third.lines[0]
    assert third.executed == whole.executed


def test_a_run_that_agrees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(tmp_path, monkeypatch)
    monkeypatch.delitem(OPERATORS, "aten::mm")
    assert search.run() == Culprit()
    assert len(search.executed) == 2


def test_random_operators_are_known() -> None:
    names = ("aten::bernoulli_.float", "aten::native_dropout", "aten::mul.Tensor", "phi::gaussian", "phi::matmul")
    assert [_is_random(name) for name in names] == [True, True, False, True, False]


# Squaring doubles a relative error: 1e-6 in a call, which any comparison accepts, is large after 22 steps. On the CPU,
# 1 stays 1.
PROGRAM = """
import sys
import torch
import warnings
from torch import nn

sys.path.append("{tests}")
from wrong_kernels import view
import hardpoint

warnings.simplefilter("ignore")


@hardpoint.kernel("relu", strided=True)
def relu(out, x):
    view(out).copy_(view(x).cpu().clamp(min=0) * (1 + 1e-6))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.ReLU(), nn.ReLU()

    def forward(self, x):
        self.first(x)  # has no effect
        return self.second(x * x)


net = Net()
x = torch.ones(4).to("sim")
for step in range(22):
    x = net(x)
print("final state", x.cpu()[0].item(), "after 22 steps")
"""


@pytest.mark.slow
def test_a_real_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM.format(tests=ROOT / "tests" / "debug"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    environment |= {"HARDPOINT_DEVICE": "sim", "COLUMNS": "300", "TERM": "dumb"}
    command = [sys.executable, "-m", "hardpoint.cli", "bisect", "--metric", r"final state (\S+)", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "found aten::relu" in lines
    assert "  module: Net.second" in lines
    assert "  a call: hardpoint replay train.calls/aten.relu-1.call" in lines
    assert (tmp_path / "train.calls" / "aten.relu-1.call").is_file()
    known = json.loads((tmp_path / "train.bisect.json").read_text())["trials"]
    assert len(known) == 6  # all, none, relu, its modules, first, second
    assert {each["metric"] for each in known.values()} == {1.0, known[next(iter(known))]["metric"]}
