"""Coverage: the tier of each overload, from the tables and from a report."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from hardpoint import coverage
from hardpoint.check import Report
from hardpoint.coverage import render


@pytest.fixture(scope="module")
def found() -> dict[str, coverage.Operator]:
    return {op.name: op for op in coverage.collect().operators}


def test_tiers_from_the_tables(found: dict[str, coverage.Operator]) -> None:
    assert len(found) > 1000
    assert found["aten::exp"].tiers["float32"] == "portable"
    assert found["aten::exp"].standard == "exp"
    for variant in ("aten::exp.out", "aten::exp_"):
        assert found[variant].tiers == found["aten::exp"].tiers
    assert found["aten::add.Tensor"].tiers["float32"] == "vendor"
    assert found["aten::empty.memory_format"].worst_tier() == "adapter"
    assert found["aten::linalg_eig.out"].worst_tier() == "cpu"
    assert "aten::linear" not in found  # torch always decomposes it
    assert not [name for name in found if "sparse" in name or "mkldnn" in name]


def test_measured_tiers_replace_table_tiers(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    seen = coverage.collect(tmp_path / "report.json")
    by_name = {op.name: op for op in seen.operators}
    assert by_name["aten::sort.values_stable"].tiers == {"float32": "cpu"}
    assert by_name["aten::exp"].tiers == {"float32": "portable"}
    assert by_name["aten::exp"].measured
    assert not by_name["aten::add.Tensor"].measured
    seen.filter("sort|exp$", "cpu")
    assert "aten::sort.values_stable" in {op.name for op in seen.operators}
    assert "aten::exp" not in {op.name for op in seen.operators}
    with pytest.raises(ValueError, match=r"must be one of adapter, .*not 'gpu'"):
        seen.filter("", "gpu")


def test_text_json_and_html(tmp_path: Path) -> None:
    made = coverage.Coverage(
        "sim",
        [
            coverage.Operator("aten::exp", {"float32": "portable", "complex64": "cpu"}, "exp"),
            coverage.Operator("aten::sort", {"float32": "cpu+portable"}),
        ],
    )
    console = Console(file=io.StringIO(), width=200)
    render.text(made, console)
    assert "portable: float32; cpu: complex64" in console.file.getvalue()  # type: ignore[attr-defined]
    render.save(made, tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["totals"]["float32"] == {"cpu+portable": 1, "portable": 1}
    render.html(made, tmp_path / "c.html")
    cells = '<td class="word">aten::exp</td><td class="word">exp</td><td class="bad word">cpu</td>'
    assert cells in (tmp_path / "c.html").read_text()


def test_mounting_before_torch_is_imported(run_python) -> None:
    done = run_python("import hardpoint.torch; print(hardpoint.torch.mount())", timeout=120)
    assert done.stdout.strip() == "sim"
