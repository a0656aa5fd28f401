"""Planted bugs that ``check`` must find: a few of each kind. All of them: ``python -m hardpoint.check.mutation``."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from hardpoint import check
from hardpoint.check import compare, direct, handles, mutant_device, mutation, numerics, saved_cases, variations
from hardpoint.check.argument_mutants import argument_mutants
from hardpoint.check.mutants import kernel_mutants
from hardpoint.check.report import BAD
from hardpoint.check.samples import Sample
from hardpoint.check.value_mutants import value_mutants


def test_there_are_enough_bugs_of_every_kind() -> None:
    names = [mutant.name for mutant in (*kernel_mutants(), *argument_mutants(), *value_mutants())]
    assert len(set(names)) == len(names)
    assert len(names) + len(mutant_device.BUGS) >= 60


@pytest.mark.parametrize(
    "name",
    [
        "add: fills its input",
        "add: stops after 4096 elements",
        "add: writes one element past the end",
        "add: wrong stream",
        "erf: wrong for five dimensions",
        "gelu: 30% wrong for negative bfloat16",
        "matmul: drops k > 64",
        "sum: drops what follows 4096 elements",
        "sum: 32 bits for integers",
        "cumsum: loses the carry after 4096 elements",
        "where: adds what is not selected times 0",
    ],
)
def test_planted_kernel_is_found(name: str) -> None:
    (outcome,) = mutation.run_kernels(f"^{re.escape(name)}$")
    assert outcome.found
    expected = {
        "fills": "the kernel overwrote its input: argument 0",
        "past": "a kernel wrote outside its memory: 0 to 3 bytes past the end",
    }
    for word, message in expected.items():
        assert word not in name or message in outcome.evidence


@pytest.mark.parametrize(
    "name",
    [
        "add: alpha only for floats",
        "mul: int64 in 32 bits",
        "exp: 0 for results below 1e-5",
        "leaky_relu: slope of 0.01",
        "hardtanh_backward: a gradient at the bounds",
        "prod: 0 for no elements",
        "clamp: min wins if it is larger",
        "triu: wrong far from the diagonal",
        "masked_fill.Scalar: broadcasts the mask from the left",
        "avg_pool2d: always counts padding",
        "native_dropout: no scale",
        "bernoulli_.float: inverted",
        "attention: causal from the end",
        "_foreach_add.List: 32 tensors",
        "_fused_adam_: 32 tensors",
        "abs: keeps -0",
        "sqrt: 0 for subnormals",
        "erf: stops after 2**20 elements",
        "cos: loses the last of a power of two",
        "sub: absolute alpha",
        "mul: numbers as float32",
        "clamp: NaN becomes min",
        "lt: int64 as float64",
        "matmul: int64 in 32 bits",
        "copy: int64 to float64 through float32",
        "any: NaN is false",
        "median: upper median",
        "linspace: excludes the end",
        "nll_loss_forward: counts what is ignored",
        "native_layer_norm: ignores bias without weight",
        "upsample_bilinear2d: ignores align_corners",
        "grid_sampler_2d: reflection is border",
    ],
)
def test_wrong_argument_is_found(name: str) -> None:
    (outcome,) = mutation.run_kernels(f"^{re.escape(name)}$")
    assert outcome.found
    assert "the check itself failed" not in outcome.evidence
    assert "RuntimeError" not in outcome.evidence


def test_kernels_without_a_bug_pass() -> None:
    names = "^(add|mul|mm|nn.functional.gelu|sum|clamp|topk|triu|_foreach_add|nn.functional.hardtanh)$"
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
    """An error of 30% in small elements is invisible relative to the largest one."""
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
        ("copies to the host leak a buffer", "copies"),
        ("record_event leaks", "records"),
    ],
)
def test_resources_that_are_not_released(bug: str, resource: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUTANT_BUG", bug)
    found = handles.of_python(mutant_device.Mutant())
    assert ("were made" if resource in ("copies", "records") else "created and destroyed") in found[resource]


def test_correct_device_releases_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUTANT_BUG", raising=False)
    assert not any(handles.of_python(mutant_device.Mutant()).values())


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        ("", ""),
        ("memory() ignores the device", "memory_of_a_device"),
        ("small allocations are not aligned", "addresses"),
        ("copies between devices ignore the stream", "copies_between_devices"),
        ("fills ignore the stream", "fills"),
        ("host functions are called at once", "host_functions"),
        ("synchronize_stream ignores the device", "copies_on_each_device"),
        ("query_event is always done", "queries"),
        ("an event keeps its first record", "recorded_again"),
        ("destroyed events are no longer waited for", "destroyed_event"),
        ("destroyed streams lose their work", "destroyed_stream"),
        ("timed waits do not wait", "timed_waits"),
        ("allocation sizes have 32 bits", "too_large_allocations"),
        ("out of memory gives a null pointer", "too_large_allocations"),
        ("concurrent allocations get the same block", "concurrent_allocations"),
        ("free of the second device counts for the first", "memory_of_a_device"),
        ("copies from odd host addresses are shifted", "odd_addresses"),
        ("record_event uses the first device", "events_of_other_devices"),
        ("waits for events of other devices are dropped", "events_of_other_devices"),
        ("a wait refers to the latest record", "earlier_record"),
        ("synchronize_event fails for events without a record", "unrecorded_event"),
        ("elapsed is always 0", "times"),
        ("later work does not wait for host functions", "work_after_host_functions"),
        ("streams with a priority are rejected", "priorities"),
        ("destroy_stream clears all streams", "destroyed_stream"),
        ("captured work runs at once, too", "graphs"),
        ("a graph runs once only", "graphs"),
        ("a graph ignores the order of its stream", "graphs"),
        ("a graph has only the latest work", "graphs"),
        ("a graph runs its work in reverse order", "graphs"),
        ("a capture never ends", "graphs"),
        ("every fifth block is not aligned", "blocks_in_use"),
        ("the 50th block is the first again", "blocks_in_use"),
        ("free releases the latest block", "blocks_in_use"),
        ("memory() is in KiB", "memory_of_a_device"),
        ("memory() swaps free and total", "memory_of_a_device"),
        ("elapsed between streams is 0", "times"),
        ("copies between devices use the other device's stream", "later_work_on_the_source"),
        ("copies of a power of two lose the last byte", "sizes"),
        ("small copies overtake large ones", "sizes"),
        ("copies to the host from odd addresses are shifted", "odd_addresses"),
        ("fills use 7 bits", "fills"),
        ("graphs lose fills", "graphs"),
        ("destroy_graph destroys all graphs", "graphs"),
        ("the number of devices grows", "number_of_devices"),
        ("synchronize_stream stops after 256 pieces of work", "many_pieces"),
        ("all streams have one handle", "concurrent_handles"),
        ("concurrent events get the same handle", "concurrent_handles"),
        ("waits of the default stream are dropped", "default_stream"),
        ("events of the default stream record nothing", "default_stream"),
        ("host functions run in reverse order", "order_of_host_functions"),
    ],
)
def test_slots_called_directly(bug: str, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUTANT_BUG", bug)
    monkeypatch.setattr(direct, "BYTES", 1 << 16)
    found = direct.problems(direct.Python(mutant_device.Mutant()))
    assert None not in found.values()
    assert {name for name, problem in found.items() if problem} >= ({check} if check else set())
    assert bug or not any(found.values())


def test_results_rounded_once() -> None:
    """Truncation to bfloat16 is within torch's tolerance, and wrong for a sum of two numbers."""
    exact = np.linspace(1, 2, 1000, dtype=np.float32)
    right = torch.from_numpy(numerics.rounded(exact, "bfloat16")).bfloat16()
    bits = torch.from_numpy(exact).view(torch.int32) & -65536
    truncated = bits.view(torch.float32).bfloat16()
    assert compare.values(truncated, right, "cpu") == ""
    assert "not close" in compare.values(truncated, right, "cpu", lambda: torch.from_numpy(exact), rounded_once=True)
    assert compare.values(right, right, "cpu", lambda: torch.from_numpy(exact), rounded_once=True) == ""


def test_small_results() -> None:
    """Zero is within the absolute tolerance of 1e-6, and wrong."""
    right, zero = torch.full((3,), 1e-6), torch.zeros(3)
    assert compare.values(zero, right, "cpu") == ""
    assert "not close" in compare.values(zero, right, "cpu", small=True)
    subnormal = torch.full((3,), 1e-40)
    assert compare.values(zero, subnormal, "cpu", small=True) == ""
    assert "not close" in compare.values(zero, subnormal, "cpu", small=True, subnormal=True)
    # The CPU's own error excuses the device's.
    assert compare.values(zero, right, "cpu", lambda: torch.full((3,), 3e-7, dtype=torch.float64), small=True) == ""


def test_signs_of_zero() -> None:
    """Zeros of either sign are equal, and differ where the sign is given."""
    right, wrong = torch.tensor([-0.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0])
    assert compare.values(wrong, right, "cpu") == ""
    assert compare.values(wrong, right, "cpu", signed_zero=True) == "not close: 1 of 3 zeros have the wrong sign"
    assert compare.values(right, right, "cpu", signed_zero=True) == ""
    # The CPU's own mistake is none of the device's.
    reference = lambda: torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)  # noqa: E731
    assert compare.values(wrong, right, "cpu", reference, signed_zero=True) == ""


def test_arguments_are_varied() -> None:
    sample = Sample(torch.ones(3, 4), (2,), {"largest": True})
    assert [s.label for s in variations.variations(torch.topk, sample)] == ["dim=0", "dim=-2", "largest=False"]
    integers = Sample(torch.ones(3, dtype=torch.int64), (torch.ones(3, dtype=torch.int64),))
    assert [s.label for s in variations.variations(torch.add, integers)] == ["alpha=3", "alpha=-1"]
    assert variations.dimension(torch.softmax, Sample(torch.ones(3, 4), (1,))) == 0
    assert variations.dimension(torch.exp, Sample(torch.ones(3))) is None


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
