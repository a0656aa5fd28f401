"""Planted bugs that ``check`` must find: a few of each kind. All of them: ``python -m hardpoint.check.mutation``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from hardpoint import check
from hardpoint.check import handles, mutant_device, mutation, numerics, saved_cases
from hardpoint.check.mutants import kernel_mutants
from hardpoint.check.report import BAD


def test_there_are_enough_bugs_of_every_kind() -> None:
    names = [mutant.name for mutant in kernel_mutants()]
    assert len(set(names)) == len(names)
    assert len(names) + len(mutant_device.BUGS) >= 60


@pytest.mark.parametrize(
    "name",
    [
        "add: fills its input",
        "add: stops after 4096 elements",
        "add: writes one element past the end",
        "add: wrong stream",
        "gelu: 30% wrong for negative bfloat16",
        "matmul: drops k > 64",
        "sum: drops what follows 4096 elements",
    ],
)
def test_planted_kernel_is_found(name: str) -> None:
    (outcome,) = mutation.run_kernels(f"^{re.escape(name)}$")
    assert outcome.found
    expected = {
        "fills": "the kernel overwrote its input: argument 0",
        "past": "a kernel wrote outside of its memory: 0 to 3 bytes past the end",
    }
    for word, message in expected.items():
        assert word not in name or message in outcome.evidence


def test_kernels_without_a_bug_pass() -> None:
    names = "^(add|mul|mm|nn.functional.gelu|sum)$"
    report = check.run(["ops"], ops=names, dtypes=mutation.DTYPES, samples=2, isolate=False)
    assert {result.entry: result.failure for result in report.results if result.verdict in BAD} == {}


def test_failing_case_is_saved_and_replayed(tmp_path: Path) -> None:
    mutant = next(m for m in kernel_mutants() if m.name == "add: stops after 4096 elements")
    with mutant.plant("sim"):
        options = {"dtypes": ("float32",), "samples": 2, "isolate": False, "failures": tmp_path}
        (result,) = check.run(["ops"], ops="^add$", **options).results  # type: ignore[arg-type]
        assert "8209 elements" in result.failure
        assert Path(result.saved).parent == tmp_path
        assert "not close" in saved_cases.replay(Path(result.saved))
    assert saved_cases.replay(Path(result.saved)) == ""


def test_other_files_are_not_cases(tmp_path: Path) -> None:
    torch.save({"format": "something"}, tmp_path / "x.case")
    with pytest.raises(ValueError, match="is not a case"):
        saved_cases.load(tmp_path / "x.case")


def test_wrong_results_fail_perf() -> None:
    mutant = next(m for m in kernel_mutants() if m.name == "add: stops after 4096 elements")
    with mutant.plant("sim"):
        (result,) = check.run(["perf"], ops="^add, 1M$", isolate=False).results
    assert result.verdict == "failed"
    assert "Mismatched elements" in result.failure


def test_16_bit_results_are_judged_by_element() -> None:
    """An error of 30% in small elements is invisible beside the largest one."""
    exact = np.linspace(0.1, 100, 1000, dtype=np.float32)
    right = numerics.Values(numerics.rounded(exact, "bfloat16"), "bfloat16")
    wrong = numerics.Values(numerics.rounded(np.where(exact < 1, exact * 1.3, exact), "bfloat16"), "bfloat16")
    assert numerics.as_accurate(wrong, right, exact)
    assert not numerics.as_accurate(wrong, right, exact, elementwise=True)
    assert numerics.as_accurate(right, right, exact, elementwise=True)
    # An error in most elements is no cancellation.
    exact = np.concatenate([np.linspace(0.1, 4, 900), np.linspace(90, 100, 100)]).astype(np.float32)
    right = numerics.Values(numerics.rounded(exact, "bfloat16"), "bfloat16")
    far = np.where(exact < 50, exact - 1.4, exact)
    assert not numerics.as_accurate(numerics.Values(numerics.rounded(far, "bfloat16"), "bfloat16"), right, exact)
    few = np.where(exact < 0.5, exact - 1.4, exact)
    assert numerics.as_accurate(numerics.Values(numerics.rounded(few, "bfloat16"), "bfloat16"), right, exact)


@pytest.mark.parametrize(
    ("bug", "resource"),
    [
        ("free does nothing", "blocks"),
        ("destroyed events are kept", "events"),
        ("destroyed streams are kept", "streams"),
        ("freed pinned memory is kept", "pinned blocks"),
    ],
)
def test_resources_that_are_not_released(bug: str, resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUTANT_BUG", bug)
    found = handles.of_python(mutant_device.Mutant())
    assert "created and destroyed" in found[resource]


def test_correct_device_releases_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUTANT_BUG", raising=False)
    assert not any(handles.of_python(mutant_device.Mutant()).values())


@pytest.mark.slow
@pytest.mark.parametrize("bug", ["", "a stream does not wait for events", "copies lose what follows 1 MiB"])
def test_planted_runtime_bug_is_found(bug: str) -> None:
    done = mutation.check_runtime(bug)
    assert done.returncode == (1 if bug else 0), done.stdout


def test_guard_zones_in_modules() -> None:
    mutant = next(m for m in kernel_mutants() if m.name == "matmul: writes a tile past the end")
    options = {"ops": "^nn.Bilinear$", "dtypes": ("float32",), "samples": 1, "isolate": False}
    with mutant.plant("sim"):
        (result,) = check.run(["modules"], guard=True, **options).results  # type: ignore[arg-type]
    assert result.verdict == "failed"
    (result,) = check.run(["modules"], guard=True, **options).results  # type: ignore[arg-type]
    assert result.verdict in ("strict", "correct")
