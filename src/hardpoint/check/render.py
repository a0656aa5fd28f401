"""Render a report as text, HTML or JUnit XML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console

from hardpoint import _html
from hardpoint._console import table
from hardpoint.check.report import BAD, Blocker, Report, Result

#: Modes whose operators are counted by tier.
TIERED = ("ops", "modules", "optim")
_COLOR = {"strict": "green", "passed": "green", "correct": "yellow", **dict.fromkeys(BAD, "red"), "not tested": "dim"}
_CONTROL = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd]")


def counts(result: Result) -> str:
    """Format comparisons by dtype: ``float32 10/10, float16 9/10``."""
    parts = []
    for dtype, count in result.dtypes.items():
        if whole := count.passed + count.failed:
            parts.append(f"{dtype} {count.passed}/{whole}{' cpu' if count.cpu else ''}")
    return ", ".join(parts)


def dtype_counts(blocker: Blocker) -> str:
    """Format the number of entries in which the operator fell back to the CPU, by dtype."""
    return ", ".join(f"{dtype} {count}" for dtype, count in blocker.dtypes.items())


def text(report: Report, console: Console, *, blockers: int = 25) -> None:
    """Print the summary."""
    _totals(report, console)
    tiered = [m for m in report.modes() if m in TIERED]
    for mode in tiered:
        _dtypes(report, mode, console)
    if found := report.blockers(tiered):
        priorities = enumerate(report.order_of_work(len(found), tiered), 1)
        priority = {operator: f"{number} ({strict} strict)" for number, (operator, strict) in priorities}
        _blockers(found, priority, console, blockers)
    for result in report.of("perf"):
        console.print(f"perf: [bold]{result.entry}[/]: {result.detail}", highlight=False)
    bad = [r for r in report.results if r.verdict in BAD]
    if bad:
        rows = table("mode", "entry", "verdict", "evidence", "first failure", title=f"Wrong: {len(bad)}")
        for result in bad:
            shown = f"[{_COLOR[result.verdict]}]{result.verdict}[/]"
            failure = result.failure if len(result.failure) < 400 else f"{result.failure[:400]}..."
            rows.add_row(result.mode, result.entry, shown, counts(result), _escape(failure))
        console.print(rows)
        console.print("To run these again:", highlight=False)
        for result in bad:
            console.print(f"  {again(result)}", highlight=False, markup=False, soft_wrap=True)
    _differences(report, console)


def _differences(report: Report, console: Console) -> None:
    """Print differences from another run."""
    differing = [(r.entry, call, difference) for r in report.results for call, difference in r.differing.items()]
    if not (matching := sum(r.matching for r in report.results)) and not differing:
        return
    console.print(f"Against the other run: {matching:,} calls match, {len(differing):,} differ")
    if differing:
        rows = table("entry", "call", "difference")
        for entry, call, difference in differing:
            rows.add_row(entry, call, _escape(difference[:200]))
        console.print(rows)


def _escape(message: str) -> str:
    return message.replace("[", r"\[")


def _totals(report: Report, console: Console) -> None:
    title = f"{report.device}: conformance in {report.seconds:.0f} s"
    rows = table("mode", "entries", "tested", "correct in some tier", "no CPU-tier call", "verdicts", title=title)
    for mode in report.modes():
        tested, right, strict = report.percentages(mode)
        verdicts = ", ".join(f"[{_COLOR[v]}]{n} {v}[/]" for v, n in report.verdicts(mode).items())
        without = f"{strict:.1f}%" if mode in TIERED else ""
        rows.add_row(mode, str(len(report.of(mode))), str(tested), f"{right:.1f}%", without, verdicts)
    real = report.without_complex()
    for mode in (m for m in real.modes() if m in TIERED and any("complex64" in r.dtypes for r in report.of(m))):
        tested, right, strict = real.percentages(mode)
        label = f"{mode} without complex"
        rows.add_row(label, str(len(real.of(mode))), str(tested), f"{right:.1f}%", f"{strict:.1f}%", "")
    console.print(rows)


def _dtypes(report: Report, mode: str, console: Console) -> None:
    rows = table("dtype", "entries", "correct", "no CPU-tier call", title=f"{mode}, by dtype")
    for dtype, (tested, right, strict) in report.by_dtype(mode).items():
        rows.add_row(dtype, str(tested), f"{100 * right / tested:.1f}%", f"{100 * strict / tested:.1f}%")
    console.print(rows)


_BLOCKER_COUNTS = ("operator", "strict if served alone", "without complex", "entries blocked")
_BLOCKER_DETAILS = ("entries by dtype", "overloads", "such as")


def _blocker_counts(blocker: Blocker) -> tuple[object, ...]:
    return blocker.operator, blocker.alone, blocker.alone_real, blocker.entries


def _blocker_details(blocker: Blocker) -> tuple[str, ...]:
    return dtype_counts(blocker), ", ".join(blocker.overloads), ", ".join(blocker.examples)


def _blockers(found: list[Blocker], priority: dict[str, str], console: Console, limit: int) -> None:
    rows = table(
        *(*_BLOCKER_COUNTS, "priority", *_BLOCKER_DETAILS),
        title=f"Operators that fell back to the CPU: {min(limit, len(found))} of {len(found)}",
        caption="Priority: order of implementation, with the number of strict entries after each operator.",
    )
    for blocker in found[:limit]:
        numbers = map(str, _blocker_counts(blocker))
        rows.add_row(*numbers, priority.get(blocker.operator, ""), *_blocker_details(blocker))
    console.print(rows)


def _rows(results: Iterable[Result]) -> Iterable[tuple[object, ...]]:
    for r in results:
        cpu = ", ".join(op.removeprefix("aten::") for op in r.cpu_operators())
        yield r.mode, r.entry, r.verdict, counts(r), cpu, r.failure or r.detail, r.seconds


def _facts(report: Report) -> list[tuple[str, str]]:
    """What was run, when and where."""
    options = {name: value for name, value in report.options.items() if value not in ("", [], None, False)}
    shown = (f"{name}: {', '.join(v) if isinstance(v, list) else v}" for name, v in options.items())
    return [
        ("device", report.device),
        ("date", report.date or "unknown"),
        ("versions", ", ".join(f"{name} {version}" for name, version in report.versions.items())),
        ("options", "; ".join(shown)),
        ("duration", f"{report.seconds:.0f} s"),
        *([("interrupted", f"{report.interrupted} entries were not run")] if report.interrupted else []),
    ]


def html(report: Report, path: str | Path) -> None:
    """Write the report as one HTML file, failures first."""
    totals = []
    for mode in report.modes():
        tested, right, strict = report.percentages(mode)
        verdicts = ", ".join(f"{n} {v}" for v, n in report.verdicts(mode).items())
        without = f"{strict:.1f}%" if mode in TIERED else ""
        totals.append((mode, len(report.of(mode)), tested, f"{right:.1f}%", without, verdicts))
    heads = ("mode", "entries", "tested", "correct in some tier", "no CPU-tier call", "verdicts")
    sections = [("Summary", _html.table("summary", heads, totals, filtered=False))]
    if bad := [r for r in report.results if r.verdict in BAD]:
        failures = [(r.mode, r.entry, r.verdict, counts(r), r.failure, again(r)) for r in bad]
        columns: tuple[str, ...] = ("mode", "entry", "verdict", "comparisons", "first failure", "run this again")
        sections.append((f"Wrong: {len(bad)}", _html.table("wrong", columns, failures)))
    if found := report.blockers([m for m in report.modes() if m in TIERED]):
        rows = [(*_blocker_counts(b), *_blocker_details(b)) for b in found]
        columns = (*_BLOCKER_COUNTS, *_BLOCKER_DETAILS)
        sections.append(("Operators that fell back to the CPU", _html.table("blockers", columns, rows)))
    columns = ("mode", "entry", "verdict", "comparisons", "on the CPU", "finding", "seconds")
    order = sorted(report.results, key=lambda r: r.verdict not in BAD)
    sections.append(("All entries", _html.table("entries", columns, _rows(order))))
    title = f"Conformance of {report.device}"
    Path(path).write_text(_html.page(title, [], sections, _html.facts(_facts(report))))


def again(result: Result) -> str:
    """The command that runs a failing case again, or its entry."""
    if result.saved:
        return shlex.join(["hardpoint", "replay", result.saved])
    return shlex.join(["hardpoint", "check", result.mode, "--ops", f"^{re.escape(result.entry)}$"])


def junit(report: Report, path: str | Path, strict: bool = False) -> None:
    """Write the report as JUnit XML, for continuous integration."""
    root = ElementTree.Element("testsuites")
    for mode in report.modes():
        results = report.of(mode)
        wrong = [r for r in results if r.verdict in BAD or (strict and r.verdict == "correct")]
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=f"hardpoint.{mode}",
            tests=str(len(results)),
            failures=str(sum(r.verdict != "crashed" for r in wrong)),
            errors=str(sum(r.verdict == "crashed" for r in wrong)),
            skipped=str(sum(r.verdict == "not tested" for r in results)),
        )
        for r in results:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"hardpoint.{mode}", name=r.entry, time=f"{r.seconds:.3f}"
            )
            if r.verdict == "not tested":
                ElementTree.SubElement(case, "skipped", message=_xml(r.detail))
            elif r in wrong:
                kind = "error" if r.verdict == "crashed" else "failure"
                message = r.failure or f"on the CPU: {', '.join(r.cpu_operators())}"
                element = ElementTree.SubElement(case, kind, message=_xml(f"{r.verdict}: {message[:200]}"))
                element.text = _xml(f"{counts(r)}\n{message}")
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _xml(message: str) -> str:
    return _CONTROL.sub("?", message)
