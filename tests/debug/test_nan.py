"""NaN watch: the operator that produces NaN or Inf, and its inputs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

import hardpoint
from hardpoint.debug.replay import load

INF, NAN = float("inf"), float("nan")


def reports(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_the_first_operator_with_its_ranges(capfd):
    x = torch.tensor([[0.5, -2.0, 4.0]], device="sim")
    with hardpoint.watch_nan() as watched:
        y = x * 2
        z = y.log()  # produced here
        (z + 1).sqrt()
    [report] = watched.produced
    assert report["operator"] == "aten::log"
    line = Path(__file__).read_text().split("# produced here")[0].count("\n") + 1
    assert f"test_nan.py:{line}" in report["location"]
    inputs, results = report["inputs"]["self"], report["results"]["result"]
    assert (inputs["min"], inputs["max"], inputs["nan"], inputs["inf"]) == (-4.0, 8.0, 0, 0)
    assert inputs["mean"] == pytest.approx(5 / 3)
    assert (inputs["dtype"], inputs["sizes"]) == ("float32", [1, 3])
    assert results["nan"] == 1
    assert results["min"] == 0.0
    assert results["max"] == pytest.approx(float(torch.tensor(8.0).log()))
    written = capfd.readouterr().err
    assert "produced NaN from finite inputs" in written
    assert "self: float32 [1, 3], min -4, max 8, mean 1.667, 0 NaN, 0 Inf" in written
    assert "first aten::log (" in watched.summary()
    assert watched.failed()


def test_stop_and_replay(tmp_path: Path):
    x = torch.tensor([1.0, -1.0], device="sim")
    with (
        hardpoint.watch_nan("stop", save=tmp_path),
        pytest.raises(hardpoint.NonFiniteError, match=r"aten::sqrt_ .*produced NaN") as caught,
    ):
        x.sqrt_()
    assert "-> result: float32 [2]" in str(caught.value)
    [file] = tmp_path.iterdir()
    assert str(file) in str(caught.value)
    assert load(file).content["arguments"][0].tolist() == [1.0, -1.0], "as it was before it was overwritten"
    [report], _, _ = load(file).replay("sim")
    assert report["verdict"] == "right", "the CPU produces the same NaN"


def test_in_backward_with_its_module(tmp_path: Path):
    class Root(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sqrt()

    model = torch.nn.Sequential(torch.nn.Identity(), Root())
    x = torch.tensor([0.0, 4.0], device="sim", requires_grad=True)
    with hardpoint.watch_nan(file=tmp_path / "calls"):
        model(x).sum().backward()
    [report] = reports(tmp_path / "calls")
    assert report["result_kind"] == "Inf"
    assert "module Sequential.1" in report["location"]
    assert "SqrtBackward" in report["location"]
    assert x.grad.tolist() == [INF, 0.25]


def test_inherited_nan_is_reported_once(capfd):
    x = torch.tensor([1.0, NAN], device="sim")
    with hardpoint.watch_nan("stop") as watched:
        x + 1
        x * 2
    assert watched.produced == []
    assert watched.inherited["operator"] == "aten::add.Tensor"
    written = capfd.readouterr().err
    assert written.count("nan: aten::") == 1
    assert "NaN in its results; its inputs already had NaN" in written


def test_nan_from_inf_counts():
    """A fully masked row: Inf is intended, NaN is not."""
    scores = torch.zeros(2, 3, device="sim")
    mask = torch.tensor([[True, False, False], [True, True, True]], device="sim")
    with (
        hardpoint.watch_nan("stop") as watched,
        pytest.raises(hardpoint.NonFiniteError, match="its inputs had Inf, but no NaN"),
    ):
        scores.masked_fill(mask, -INF).softmax(1)
    assert "softmax" in watched.produced[0]["operator"]


def test_inf_can_be_ignored():
    x = torch.tensor([0.0, 1.0], device="sim")
    with hardpoint.watch_nan("stop", inf=False):
        x.log()
    with hardpoint.watch_nan("stop"), pytest.raises(hardpoint.NonFiniteError, match="produced Inf"):
        x.log()


def test_overwritten_memory_is_not_an_input():
    out = torch.full((3,), NAN, device="sim")
    with hardpoint.watch_nan("stop") as watched:
        torch.add(torch.ones(3, device="sim"), 1, out=out)
        torch.full((3,), NAN, device="sim").copy_(torch.ones(3))
        torch.full((3,), NAN, device="sim").uniform_()
        torch.full((3,), NAN, device="sim").fill_(1)
    assert watched.produced == []
    with hardpoint.watch_nan("stop"), pytest.raises(hardpoint.NonFiniteError, match=r"aten::div\.out.*produced Inf"):
        torch.div(torch.ones(3, device="sim"), torch.zeros(3, device="sim"), out=out.fill_(NAN))


def test_mode_all_and_tensor_lists(tmp_path: Path):
    weights = [torch.ones(2, device="sim"), torch.zeros(2, device="sim")]
    with hardpoint.watch_nan("all", file=tmp_path / "calls") as watched:
        torch._foreach_reciprocal_(weights)
        torch.ones(2, device="sim").neg().log()
        torch.ones(3, dtype=torch.complex64, device="sim") / torch.zeros(3, device="sim")
        torch.full((2,), 6e4, dtype=torch.float16, device="sim") * 2
    names = [report["operator"] for report in reports(tmp_path / "calls")]
    assert names == ["aten::_foreach_reciprocal_", "aten::log", "aten::div.Tensor", "aten::mul.Tensor"]
    first = watched.produced[0]
    assert first["inputs"]["self[1]"]["max"] == 0.0
    assert [each["inf"] for each in first["results"].values()] == [0, 2]


def test_intermediate_results_do_not_count():
    x = torch.tensor([-200.0, 3.0], device="sim")  # exp(200) is Inf inside
    with hardpoint.fallback("silu=decomposition"), hardpoint.watch_nan("stop") as watched:
        torch.nn.functional.silu(x)
    assert watched.produced == []


def test_filters_and_invalid_options(tmp_path: Path):
    x = torch.tensor([-1.0], device="sim")
    with hardpoint.watch_nan("stop", ops="sqrt"):
        x.log()
    for given, message in (
        ({"mode": "some"}, "must be one of report, all, stop"),
        ({"file": "/nowhere/x"}, "cannot write to"),
    ):
        with pytest.raises(ValueError, match=message):
            hardpoint.watch_nan(**given)


def test_the_environment_of_a_running_program(capfd, monkeypatch):
    x = torch.tensor([-1.0], device="sim")
    monkeypatch.setenv("HARDPOINT_NAN", "report; ops=log")
    x.sqrt()
    x.log()
    os.environ["HARDPOINT_NAN"] = "0"
    written = capfd.readouterr().err
    assert written.count("nan: aten::log") == 1
    assert "nan: 1 calls produced NaN or Inf, first aten::log" in written
    with pytest.raises(ValueError, match="inf must be a non-negative integer"):
        os.environ["HARDPOINT_NAN"] = "stop; inf=yes"
