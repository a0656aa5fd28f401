"""Verdicts, blockers of a strict verdict, and report formats."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

import hardpoint.check
from hardpoint import cli
from hardpoint.check import Count, Report, Result, render
from hardpoint.check.report import base_name
from hardpoint.codegen import coverage_page


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ({"float32": Count(passed=3)}, "strict"),
        ({"float32": Count(passed=3), "bool": Count(passed=1, cpu=True)}, "correct"),
        ({"float32": Count(passed=3), "float16": Count(failed=1)}, "partly"),
        ({"float32": Count(failed=2)}, "failed"),
        ({"float32": Count(skipped=2)}, "not tested"),
        ({}, "not tested"),
    ],
)
def test_verdicts(counts: dict[str, Count], verdict: str) -> None:
    assert Result("ops", "x", dtypes=counts).set_verdict().verdict == verdict


def test_counters_by_dtype() -> None:
    result = Result("ops", "x")
    result.add_counters("float32", {"aten::exp": {"portable": 2}})
    result.add_counters("float32", {"aten::exp": {"portable": 1}, "aten::sort": {"cpu": 1}})
    result.add_counters("bool", {"aten::exp": {"cpu": 1}})
    assert result.tiers["aten::exp"] == {"float32": {"portable": 3}, "bool": {"cpu": 1}}
    assert result.cpu_operators() == ["aten::exp", "aten::sort"]
    assert result.count("float32").cpu
    assert result.count("bool").cpu


@pytest.mark.parametrize(
    ("name", "base"),
    [("aten::add.Tensor", "add"), ("aten::add_.Tensor", "add"), ("aten::__and__.Scalar", "__and__"), ("exp_", "exp")],
)
def test_base_names(name: str, base: str) -> None:
    assert base_name(name) == base


def test_blockers(report: Report) -> None:
    found = {b.operator: b for b in report.blockers(["ops"])}
    assert found["sort"].alone == 2  # not median, which needs kthvalue too
    assert found["sort"].entries == 3
    assert found["sort"].overloads == ("sort", "sort.values_stable")
    assert (found["kthvalue"].alone, found["kthvalue"].entries) == (0, 1)
    assert found["min"].alone == 0  # serving min would not make it strict, because the entry is wrong
    assert next(iter(found)) == "sort"
    # exp is already strict; sort makes two more strict, kthvalue the last.
    assert report.order_of_work() == [("sort", 3), ("kthvalue", 4)]


def test_blockers_without_complex_dtypes(report: Report) -> None:
    angle = report.results[1]
    angle.dtypes["complex64"] = Count(passed=2, cpu=True)
    angle.tiers["aten::angle"] = {"complex64": {"cpu": 4}}
    found = {b.operator: b for b in report.blockers(["ops"])}
    assert (found["sort"].alone, found["sort"].alone_real) == (1, 2)
    assert found["angle"].dtypes == {"complex64": 1}
    assert report.without_complex().results[1].dtypes.keys() == {"float32"}
    assert report.results[1].dtypes.keys() == {"float32", "complex64"}


def test_percentages(report: Report) -> None:
    tested, right, strict = report.percentages("ops")
    assert tested == 6
    assert right == pytest.approx(100 * 4 / 6)
    assert strict == pytest.approx(100 / 6)
    # A crashed entry has only the counts from the fixture.
    assert report.by_dtype("ops")["float32"] == (6, 5, 2)
    assert report.verdicts("ops") == {"strict": 1, "correct": 3, "partly": 1, "crashed": 1, "not tested": 1}


def test_save_and_load(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json") == report
    summary = json.loads((tmp_path / "report.json").read_text())["summary"]["ops"]
    assert summary["blockers"][0]["operator"] == "sort"


def test_html_has_every_entry(report: Report, tmp_path: Path) -> None:
    render.html(report, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    for result in report.results:
        assert f'<td class="word">{result.entry}</td>' in page
    assert "&lt;not&gt; close &amp;" in page
    assert '<td class="bad word">crashed</td>' in page
    assert "http" not in page  # loads nothing from other servers


def test_html_starts_with_the_facts_and_the_failures(report: Report, tmp_path: Path) -> None:
    report.date, report.options = "2026-11-18T10:00:00+00:00", {"samples": 4, "dtypes": ["float32", "bool"], "ops": ""}
    render.html(report, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    facts = page[page.index("<dl>") : page.index("</dl>")]
    for name, value in (("device", "sim"), ("date", report.date), ("options", "samples: 4; dtypes: float32, bool")):
        assert f"<dt>{name}</dt><dd>{value}</dd>" in facts
    headings = re.findall("<h2>(.*?)</h2>", page)
    assert headings == ["Summary", "Wrong: 2", "Operators that fell back to the CPU", "All entries"]
    wrong = page[page.index("Wrong: 2") : page.index("Operators that fell back")]
    assert "cov" in wrong
    assert "hardpoint check ops --ops &#x27;^svd$&#x27;" in wrong
    # A column of numbers has its header on the same side.
    assert '<th class="number">seconds</th>' in page
    assert "overflow-wrap: anywhere" not in page


def test_junit_is_well_formed(report: Report, tmp_path: Path) -> None:
    render.junit(report, tmp_path / "report.xml")
    suites = {s.get("name"): s for s in ElementTree.parse(tmp_path / "report.xml").getroot()}
    ops = suites["hardpoint.ops"]
    counts = [ops.get(k) for k in ("tests", "failures", "errors", "skipped")]
    assert counts == ["7", "1", "1", "1"]
    cases = {c.get("name"): c for c in ops}
    assert "<not> close" in (cases["cov"].find("failure").get("message") or "")  # type: ignore[union-attr]
    assert cases["svd"].find("error") is not None
    assert cases["sort"].find("failure") is None
    render.junit(report, tmp_path / "strict.xml", strict=True)
    strict = {s.get("name"): s for s in ElementTree.parse(tmp_path / "strict.xml").getroot()}
    assert strict["hardpoint.ops"].get("failures") == "4"


def test_text(report: Report) -> None:
    console = Console(file=io.StringIO(), width=240)
    render.text(report, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "66.7%" in shown
    assert "16.7%" in shown
    assert "sort.values_stable" in shown
    assert "SIGSEGV" in shown


def test_coverage_page(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    coverage_page.write(tmp_path / "report.json", tmp_path / "coverage.md")
    page = (tmp_path / "coverage.md").read_text()
    assert "| `sort` | 2 | 2 | 3 | float32 | sort, msort, median |" in page
    assert "| `to_sparse` | ops | makes a sparse tensor |" in page
    assert "| `svd` | ops | crashed |" in page
    rows = [line for line in page.splitlines() if line.startswith("| `cov`")]
    assert len(rows) == 1


def _exit_code(monkeypatch: pytest.MonkeyPatch, report: Report, *arguments: str) -> int:
    monkeypatch.setattr(hardpoint.check, "run", lambda *args, **kwargs: report)
    return CliRunner().invoke(cli.app, ["check", *arguments]).exit_code


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, report: Report) -> None:
    assert _exit_code(monkeypatch, report) == 1
    good = Report("sim", [r for r in report.results if r.verdict in ("strict", "correct", "passed", "not tested")])
    assert _exit_code(monkeypatch, good) == 0
    assert _exit_code(monkeypatch, good, "--strict") == 1
    assert _exit_code(monkeypatch, Report("sim", [report.results[0]]), "--strict") == 0
    assert _exit_code(monkeypatch, Report("sim", [])) == 1


def test_wrong_arguments() -> None:
    done = CliRunner().invoke(cli.app, ["check", "everything"])
    assert done.exit_code == 2
    assert "unknown mode everything" in done.output
    done = CliRunner().invoke(cli.app, ["check", "ops", "--dtypes", "float31"])
    assert done.exit_code == 2
    assert "float31" in done.output
