"""Runs of a few entries: correct, wrong, on the CPU, crashing, resumed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import hardpoint
from hardpoint import check

FLOATS = ("float32", "bfloat16")


def run(pattern: str, *modes: str, **options: object) -> dict[str, check.Result]:
    report = check.run(modes or ("ops",), ops=pattern, dtypes=FLOATS, samples=2, isolate=False, **options)  # type: ignore[arg-type]
    return {r.entry: r for r in report.results}


def test_portable_operator_is_strict_and_cpu_operator_is_correct() -> None:
    results = run(r"^(exp|linalg\.eig|to_sparse|empty_like)$")
    assert results["exp"].verdict == "strict"
    assert results["exp"].count("float32").passed >= 6  # samples, layouts, in-place, out=, extreme values
    assert results["exp"].tiers["aten::exp"]["bfloat16"].keys() == {"portable"}
    assert results["linalg.eig"].verdict == "correct"
    assert "aten::linalg_eig" in results["linalg.eig"].cpu_operators()
    assert (results["to_sparse"].verdict, results["to_sparse"].detail) == ("not tested", "makes a sparse tensor")
    assert results["empty_like"].verdict == "strict"


def test_wrong_kernel_is_caught() -> None:
    def wrong(out: object, x: object) -> None:
        pass  # writes nothing

    with hardpoint.kernel("exp")(wrong):
        result = run("^exp$")["exp"]
    # Empty samples pass with any kernel.
    assert result.verdict in ("failed", "partly")
    assert result.count("float32").failed > 3
    assert "not close" in result.failure
    assert run("^exp$")["exp"].verdict == "strict"


def test_error_message_of_a_kernel_is_reported() -> None:
    def broken(out: object, x: object) -> None:
        raise ValueError("the bus is on fire")

    with hardpoint.kernel("exp")(broken):
        result = run("^exp$")["exp"]
    assert result.verdict in ("failed", "partly")
    assert "the bus is on fire" in result.failure


def test_cpu_specific_results_are_no_failures() -> None:
    """Statistics in the input's dtype, outputs with contiguous strides, and the order of equal elements."""
    results = run(r"^(native_layer_norm|native_batch_norm|msort|topk|narrow_copy)$")
    assert {name: r.failure for name, r in results.items() if r.failure} == {}


def test_random_operators_are_compared_by_distribution() -> None:
    results = run(r"^(uniform|nn\.functional\.dropout|randint)$")
    assert {r.verdict for r in results.values()} <= {"strict", "correct"}
    assert results["uniform"].count("float32").passed >= 1


def test_resume(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    run("^exp$", resume=file)
    head, line = file.read_text().splitlines()
    first = json.loads(line)
    first["detail"] = "from the file"
    file.write_text(f"{head}\n{json.dumps(first)}\n" + '{"mode": "ops", "entry": "ab')  # a truncated line
    results = run("^(exp|abs)$", resume=file)
    assert results["exp"].detail == "from the file"
    assert results["abs"].verdict == "strict"
    assert sum('"entry": "abs"' in kept for kept in file.read_text().splitlines()) == 1
    assert run("^(exp|abs)$", resume=file).keys() == {"exp", "abs"}
    assert sum('"entry": "abs"' in kept for kept in file.read_text().splitlines()) == 1
    with pytest.raises(ValueError, match="has results for different samples"):
        check.run(["ops"], ops="^exp$", dtypes=FLOATS, samples=3, resume=file, isolate=False)


def test_other_modes() -> None:
    results = run("^(nn.ReLU|nn.Linear|SGD|threads|alignment|out_of_memory|slot allocate|add, 2x3)$", *check.MODES)
    assert results["nn.ReLU"].verdict == "strict"
    assert results["nn.Linear"].verdict in ("strict", "correct")
    assert results["SGD"].verdict in ("strict", "correct")
    for name in ("threads", "alignment", "out_of_memory", "slot allocate", "add, 2x3"):
        assert results[name].verdict == "passed", results[name].failure
    assert "x native CPU time" in results["add, 2x3"].detail


def test_unknown_modes_and_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown mode speed"):
        check.run(["speed"])
    with pytest.raises(ValueError, match="unknown dtype float8"):
        check.run(["ops"], dtypes=["float8"])


PLUGIN = """
import ctypes, os
from hardpoint.plugin import Plugin, kernel

class Fragile(Plugin):
    name = "fragile"
    _held = {}
    def device_count(self): return 1
    def allocate(self, device, count):
        memory = ctypes.create_string_buffer(count + 64)
        address = (ctypes.addressof(memory) + 63) // 64 * 64
        self._held[address] = memory
        return address
    def free(self, device, address): del self._held[address]
    def copy_to_device(self, device, dst, src, count, stream): ctypes.memmove(dst, src, count)
    copy_to_host = copy_on_device = copy_to_device
    @kernel("exp")
    def exp(self, out, x): os.abort()
"""


@pytest.mark.slow
def test_crash_costs_one_entry(run_python, tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(PLUGIN)
    done = run_python(
        """
        from hardpoint import check
        only = "^(exp|abs|slot (allocate|streams.create))$"
        report = check.run(["ops", "abi"], ops=only, dtypes=["float32"], samples=1)
        for r in report.results:
            print(r.entry, "|", r.verdict, "|", *(r.failure or r.detail).splitlines()[:1])
        """,
        timeout=280,
        HARDPOINT_PLUGIN_PATH=str(tmp_path / "fragile.py"),
        HARDPOINT_DEVICE="fragile",
    )
    lines = dict(line.split(" | ", 1) for line in done.stdout.splitlines() if " | " in line)
    assert lines["exp"].startswith("crashed | at float32")
    assert "SIGABRT" in lines["exp"]
    assert lines["abs"].startswith("correct")
    assert lines["slot allocate"] == "passed | present"
    assert lines["slot streams.create"] == "not tested | absent: every call is synchronous, with one stream per device"


@pytest.mark.slow
def test_command(run_python, tmp_path: Path) -> None:
    done = run_python(
        f"""
        import sys
        from hardpoint import cli
        sys.argv = ["hardpoint", "check", "ops", "--ops", "^(exp|abs)$", "--dtypes", "float32", "--strict",
                    "--html", "{tmp_path}/r.html", "--junit", "{tmp_path}/r.xml", "--json", "{tmp_path}/r.json"]
        cli.main()
        """,
        timeout=280,
        COLUMNS="200",
    )
    assert "100.0%" in done.stdout
    report = check.Report.load(tmp_path / "r.json")
    assert {r.entry: r.verdict for r in report.results} == {"exp": "strict", "abs": "strict"}
    assert '<td class="word">exp</td>' in (tmp_path / "r.html").read_text()
    assert "hardpoint.ops" in (tmp_path / "r.xml").read_text()


def test_saved_results_are_compared(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    run("^(exp|add)$", keep=kept)
    results = run("^(exp|add|abs)$", against=kept)
    assert results["exp"].matching > 6
    assert results["add"].matching > 6
    assert results["abs"].matching == 0  # nothing was saved
    assert not any(r.differing for r in results.values())

    def off(out: Any, x: Any) -> None:
        torch.from_dlpack(out).copy_(torch.from_dlpack(x).sinh())

    with hardpoint.kernel("exp")(off):
        result = run("^exp$", against=kept)["exp"]
    assert len(result.differing) > 4
    assert "not close" in next(iter(result.differing.values()))
    with pytest.raises(ValueError, match="no folder"):
        run("^exp$", against=tmp_path / "none")


def test_nextafter_must_be_exact() -> None:
    def narrow(out: Any, x: Any, y: Any) -> None:
        """Mimics a kernel that computes in float32 and rounds: the result is x itself."""
        torch.from_dlpack(out).copy_(torch.from_dlpack(x))

    assert run("^nextafter$")["nextafter"].verdict == "strict"
    with hardpoint.kernel("nextafter")(narrow):
        result = run("^nextafter$")["nextafter"]
    assert result.count("bfloat16").failed > 3
