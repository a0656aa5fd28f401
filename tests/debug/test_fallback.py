"""Fallback rules: their syntax, and the tier that then serves an operator."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

import pytest
import torch

import hardpoint
from hardpoint.debug.fallback import _active, parse

ALL_BUT_CPU = ["vendor", "portable", "decomposition"]


def test_parse():
    assert parse("add.out,mm") == [("add.out", ALL_BUT_CPU), ("mm", ALL_BUT_CPU)]
    assert parse("mm=portable, bmm=decomposition,mv=vendor") == [
        ("mm", ["vendor"]),
        ("bmm", ["vendor", "portable"]),
        ("mv", []),
    ]
    assert parse("mm=-portable-cpu") == [("mm", ["portable", "cpu"])]
    assert parse(".*=error") == parse("error") == [(".*", ["cpu"])]
    assert parse(".*\n!mm  # but this one\n\n") == [(".*", ALL_BUT_CPU), ("mm", [])]
    assert parse("a{1,2},(b|c,d)") == [("a{1,2}", ALL_BUT_CPU), ("(b|c,d)", ALL_BUT_CPU)]
    assert parse("") == []


def test_a_public_name_selects_the_operators_behind_it():
    [(pattern, _)] = parse("conv2d")
    assert re.fullmatch(pattern, "convolution_overrideable")
    assert re.fullmatch(pattern, "convolution_backward_overrideable")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mm=gpu", "'mm=gpu': expected vendor, portable.*not 'gpu'"),
        ("mm=-gpu", "'-gpu'"),
        ("(", "'\\(' is not a valid regular expression"),
        ("=cpu", "names no operator"),
        ("!", "names no operator"),
        ("@/nowhere/rules.txt", "cannot read /nowhere/rules.txt"),
    ],
)
def test_bad_rules(text, message):
    with pytest.raises(ValueError, match=message):
        hardpoint.fallback(text)


def test_a_pattern_rejected_by_the_core_changes_nothing(tiers):
    a = torch.ones(2, 2, device="sim")
    with hardpoint.fallback("mm"):
        with pytest.raises(ValueError, match="is not a valid regular expression"):
            hardpoint.fallback("(?P<name>add)")
        a @ a
    assert tiers("mm") == {"cpu": 1}


def test_files_of_rules(tmp_path: Path, tiers):
    (tmp_path / "more.txt").write_text("add.*  # every overload\n")
    (tmp_path / "rules.txt").write_text(f"# some\nmm\n@{tmp_path / 'more.txt'}\n")
    a = torch.ones(2, 2, device="sim")
    with hardpoint.fallback(f"@{tmp_path / 'rules.txt'}"):
        a @ a + a
    assert tiers("mm") == {"cpu": 1}
    assert tiers("add.Tensor") == {"cpu": 1}
    (tmp_path / "loop.txt").write_text(f"@{tmp_path / 'loop.txt'}")
    with pytest.raises(ValueError, match="includes itself"):
        parse(f"@{tmp_path / 'loop.txt'}")


def test_each_tier(tiers):
    a = torch.randn(4, 4, device="sim")
    right = a.cpu() * a.cpu()
    for rule, tier in (
        ("mul=vendor", "vendor"),
        ("mul=portable", "portable"),
        ("mul", "cpu"),
        ("mul=-vendor", "portable"),
    ):
        hardpoint.reset_counters()
        with hardpoint.fallback(rule):
            torch.testing.assert_close((a * a).cpu(), right)
        assert tiers("mul.Tensor") == {tier: 1}, rule
    hardpoint.reset_counters()
    assert (a * a).cpu().equal(right)
    assert tiers("mul.Tensor") == {"vendor": 1}, "rules end with the block"


def test_decomposition_in_place_of_a_kernel(tiers):
    a = torch.randn(5, 4, device="sim")
    with hardpoint.fallback("silu=decomposition"):
        made = torch.nn.functional.silu(a)
    torch.testing.assert_close(made.cpu(), torch.nn.functional.silu(a.cpu()))
    assert tiers("silu") == {"decomposition": 1}
    with hardpoint.fallback("silu=decomposition,sigmoid"):  # not abandoned because one step ran on the CPU
        torch.nn.functional.silu(a)
    hardpoint.reset_counters()
    with hardpoint.fallback("silu=decomposition"):
        torch.nn.functional.silu(a)
    assert tiers("silu") == {"decomposition": 1}


def test_rules_apply_to_custom_wrappers(tiers):
    a = torch.randn(6, 5, device="sim")
    with hardpoint.fallback("_softmax,sum.dim_IntList"):
        torch.testing.assert_close(a.softmax(1).cpu(), a.cpu().softmax(1))
        torch.testing.assert_close(a.sum(0).cpu(), a.cpu().sum(0))
    assert tiers("_softmax") == {"cpu": 1}
    assert tiers("sum.dim_IntList") == {"cpu": 1}


def test_convolutions_on_the_cpu(tiers):
    x, w, b = (torch.randn(s, device="sim", requires_grad=True) for s in ((2, 3, 6, 5), (4, 3, 3, 3), (4,)))
    cx, cw, cb = (t.detach().cpu().requires_grad_() for t in (x, w, b))
    with hardpoint.fallback("conv2d"):
        made = torch.nn.functional.conv2d(x, w, b, padding=1)
        made.square().sum().backward()
    torch.nn.functional.conv2d(cx, cw, cb, padding=1).square().sum().backward()
    for ours, right in ((x, cx), (w, cw), (b, cb)):
        torch.testing.assert_close(ours.grad.cpu(), right.grad, rtol=1e-4, atol=1e-4)
    assert tiers("convolution_overrideable") == {"cpu": 1}
    assert tiers("convolution_backward_overrideable") == {"cpu": 1}


def test_regular_expressions_over_whole_names(tiers):
    a = torch.randn(3, device="sim")
    with hardpoint.fallback(r".*\.Scalar"):
        a.pow(2)
        torch.ge(a, 1)
        a * a
    assert tiers("ge.Scalar") == {"cpu": 1}
    assert tiers("mul.Tensor") == {"vendor": 1}


def test_the_last_matching_rule_wins(tiers):
    a = torch.randn(3, 3, device="sim")
    with hardpoint.fallback(".*,!mm"):
        a @ a * a
    assert tiers("mm") == {"vendor": 1}
    assert tiers("mul.Tensor") == {"cpu": 1}
    hardpoint.reset_counters()
    with hardpoint.fallback(".*"), hardpoint.fallback("mm=portable"):
        a @ a
    assert tiers("mm") == {"portable": 1}


def test_error_names_the_operator_and_the_line():
    a = torch.randn(3, 3, device="sim")
    with hardpoint.fallback(".*=error"):
        a @ a  # has a kernel
        with hardpoint.fallback("mm=-vendor-portable-decomposition-cpu"), pytest.raises(NotImplementedError) as caught:
            a @ a  # here
    line = Path(__file__).read_text().splitlines().index("            a @ a  # here") + 1
    assert "aten::mm would run on the CPU" in str(caught.value)
    assert f"test_fallback.py:{line}" in str(caught.value)


def test_the_environment_of_a_running_program(tiers, monkeypatch):
    a = torch.randn(3, 3, device="sim")
    monkeypatch.setenv("HARDPOINT_FALLBACK", "mm")
    a @ a
    with pytest.raises(ValueError, match="expected vendor"):
        os.environ["HARDPOINT_FALLBACK"] = "mm=nonsense"
    a @ a
    assert os.environ["HARDPOINT_FALLBACK"] == "mm"
    monkeypatch.delenv("HARDPOINT_FALLBACK")
    a @ a
    assert tiers("mm") == {"cpu": 2, "vendor": 1}


def test_the_environment_at_the_start(run_python):
    program = (
        "import torch, hardpoint\na = torch.ones(2, 2, device='sim')\na @ a\nprint(hardpoint.counters()['aten::mm'])"
    )
    assert run_python(program, HARDPOINT_FALLBACK="mm").stdout == "{'cpu': 1}\n"
    done = run_python(program, HARDPOINT_FALLBACK="mm=what", check=False, fresh=True)
    assert done.returncode != 0
    assert "HARDPOINT_FALLBACK: fallback rule 'mm=what'" in done.stderr
    assert "Traceback" not in done.stderr


def test_rules_apply_to_all_threads(tiers):
    a = torch.randn(3, 3, device="sim")
    start, go = threading.Event(), threading.Event()

    def work():
        a @ a
        start.set()
        go.wait(10)
        a @ a

    thread = threading.Thread(target=work)
    thread.start()
    start.wait(10)
    with hardpoint.fallback("mm"):
        go.set()
        thread.join()
    assert tiers("mm") == {"vendor": 1, "cpu": 1}


def test_a_rule_that_matches_nothing_warns():
    with (
        pytest.warns(UserWarning, match="'aten::no_such_operator' matches no torch operator"),
        hardpoint.fallback("aten::no_such_operator"),
    ):
        pass
    assert not _active.program


def net() -> torch.nn.Module:
    return torch.nn.Sequential(
        *(torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
        *(torch.nn.Flatten(), torch.nn.Dropout(0.0), torch.nn.Linear(36, 10)),
    )


def train(device: str) -> list[float]:
    torch.manual_seed(1)
    model, images, labels = net(), torch.randn(16, 1, 8, 8), torch.randint(10, (16,))
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_everything_on_the_cpu_still_trains():
    right = train("cpu")
    with hardpoint.fallback(".*"):
        ours = train("sim")
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(right), rtol=1e-4, atol=1e-4)
    kernels = {n: t for n, t in hardpoint.counters().items() if set(t) - {"cpu"} and n != "aten::copy_"}
    assert kernels == {}


def test_summary():
    a = torch.randn(64, 64, device="sim")
    with hardpoint.fallback("mm"):
        a @ a
    a * a
    lines = hardpoint.summary().splitlines()
    assert lines[0].split() == ["operator", "tier", "calls", "bytes", "copied", "time", "lost"]
    name, tier, calls, copied, spent, _ = lines[1].split()
    assert (name, tier, calls, copied) == ("aten::mm", "cpu", "1", f"{2 * 64 * 64 * 4:,}")
    assert 0 < float(spent.replace(",", "")) < 10_000
    assert any(line.split()[:3] == ["aten::mul.Tensor", "vendor", "1"] for line in lines)
    assert "1 of them on the CPU" in lines[-1]
