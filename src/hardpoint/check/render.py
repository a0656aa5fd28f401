"""A report for people and for continuous integration: text, HTML, JUnit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.table import Table

from hardpoint.check.report import BAD, Blocker, Report, Result
from hardpoint.tools import page

#: Modes whose entries are served by tiers.
TIERED = ("ops", "modules", "optim")
_COLOUR = {
    "strict": "green",
    "passed": "green",
    "correct": "yellow",
    "partly": "red",
    "failed": "red",
    "crashed": "red",
    "not tested": "dim",
}
_CONTROL = re.compile(r"[^\x09\x0a\x0d\x20-\ud7ff\ue000-\ufffd]")


def counts(result: Result) -> str:
    """Comparisons by dtype, as text: ``float32 10/10, float16 9/10``."""
    parts = []
    for dtype, count in result.dtypes.items():
        if whole := count.passed + count.failed:
            parts.append(f"{dtype} {count.passed}/{whole}{' cpu' if count.cpu else ''}")
    return ", ".join(parts)


def dtype_counts(blocker: Blocker) -> str:
    """In how many entries the operator fell to the CPU, by dtype."""
    return ", ".join(f"{dtype} {count}" for dtype, count in blocker.dtypes.items())


def text(report: Report, console: Console, *, blockers: int = 25) -> None:
    """Print the summary."""
    _totals(report, console)
    for mode in (m for m in report.modes() if m in TIERED):
        _dtypes(report, mode, console)
    tiered = [m for m in report.modes() if m in TIERED]
    found = report.blockers(tiered)
    if found:
        _blockers(report, tiered, console, blockers)
    for result in report.of("perf"):
        console.print(f"perf: [bold]{result.entry}[/]: {result.detail}", highlight=False)
    bad = [r for r in report.results if r.verdict in BAD]
    if bad:
        table = Table("mode", "entry", "verdict", "evidence", "first failure", title=f"Wrong: {len(bad)}")
        for result in bad:
            shown = f"[{_COLOUR[result.verdict]}]{result.verdict}[/]"
            failure = result.failure if len(result.failure) < 400 else f"{result.failure[:400]}..."
            table.add_row(result.mode, result.entry, shown, counts(result), _plain(failure))
        console.print(table)
    _kept(report, console)


def _kept(report: Report, console: Console) -> None:
    """Where results differ from those of another run."""
    apart = [(r.entry, call, difference) for r in report.results for call, difference in r.apart.items()]
    if not (same := sum(r.same for r in report.results)) and not apart:
        return
    console.print(f"Against the other run: {same:,} calls with the same results, {len(apart):,} with others")
    if apart:
        table = Table("entry", "call", "difference")
        for entry, call, difference in apart:
            table.add_row(entry, call, _plain(difference[:200]))
        console.print(table)


def _plain(message: str) -> str:
    return message.replace("[", r"\[")


def _totals(report: Report, console: Console) -> None:
    title = f"{report.device}: conformance in {report.seconds:.0f} s"
    table = Table("mode", "entries", "tested", "correct in some tier", "no CPU-tier call", "verdicts", title=title)
    for mode in report.modes():
        tested, right, strict = report.percentages(mode)
        verdicts = ", ".join(f"[{_COLOUR[v]}]{n} {v}[/]" for v, n in report.verdicts(mode).items())
        without = f"{strict:.1f}%" if mode in TIERED else ""
        table.add_row(mode, str(len(report.of(mode))), str(tested), f"{right:.1f}%", without, verdicts)
    real = report.real()
    for mode in (m for m in real.modes() if m in TIERED and any("complex64" in r.dtypes for r in report.of(m))):
        tested, right, strict = real.percentages(mode)
        label = f"{mode} without complex"
        table.add_row(label, str(len(real.of(mode))), str(tested), f"{right:.1f}%", f"{strict:.1f}%", "")
    console.print(table)


def _dtypes(report: Report, mode: str, console: Console) -> None:
    table = Table("dtype", "entries", "correct", "no CPU-tier call", title=f"{mode}, by dtype")
    for dtype, (tested, right, strict) in report.by_dtype(mode).items():
        table.add_row(dtype, str(tested), f"{100 * right / tested:.1f}%", f"{100 * strict / tested:.1f}%")
    console.print(table)


def _blockers(report: Report, modes: list[str], console: Console, limit: int) -> None:
    found = report.blockers(modes)
    order = dict(report.order_of_work(len(found), modes))
    place = {operator: number + 1 for number, operator in enumerate(order)}
    table = Table(
        *("operator", "strict if served alone", "without complex", "entries blocked", "place in the order of work"),
        *("entries by dtype", "overloads", "such as"),
        title=f"Operators that fell to the CPU: {min(limit, len(found))} of {len(found)}",
        caption="The order of work counts what the operators before it have made strict already.",
    )
    for blocker in found[:limit]:
        table.add_row(
            blocker.operator,
            str(blocker.alone),
            str(blocker.alone_real),
            str(blocker.entries),
            f"{place[blocker.operator]} ({order[blocker.operator]} strict then)" if blocker.operator in place else "",
            dtype_counts(blocker),
            ", ".join(blocker.overloads),
            ", ".join(blocker.examples),
        )
    console.print(table)


def _rows(results: Iterable[Result]) -> Iterable[tuple[object, ...]]:
    for r in results:
        said = r.failure or r.detail
        cpu = ", ".join(op.removeprefix("aten::") for op in r.cpu_operators())
        yield r.mode, r.entry, r.verdict, counts(r), cpu, said, r.seconds


def html(report: Report, path: str | Path) -> None:
    """Write the report as one HTML file."""
    paragraphs = [f"Versions: {', '.join(f'{name} {v}' for name, v in report.versions.items())}."]
    for mode in report.modes():
        tested, right, strict = report.percentages(mode)
        words = ", ".join(f"{n} {v}" for v, n in report.verdicts(mode).items())
        without = f", {strict:.1f}% without the CPU tier" if mode in TIERED else ""
        paragraphs.append(f"{mode}: {tested} tested, {right:.1f}% correct{without} ({words}).")
    modes = [m for m in report.modes() if m in TIERED]
    columns = ("mode", "entry", "verdict", "comparisons", "on the CPU", "said", "seconds")
    sections = [("Entries", page.table("entries", columns, _rows(report.results)))]
    if found := report.blockers(modes):
        rows = [
            (
                b.operator,
                b.alone,
                b.alone_real,
                b.entries,
                dtype_counts(b),
                ", ".join(b.overloads),
                ", ".join(b.examples),
            )
            for b in found
        ]
        heads = [
            *("operator", "strict if served alone", "without complex", "entries blocked", "entries by dtype"),
            *("overloads", "such as"),
        ]
        sections.insert(0, ("Operators that fell to the CPU", page.table("blockers", heads, rows)))
    Path(path).write_text(page.page(f"Conformance of {report.device}", paragraphs, sections))


def junit(report: Report, path: str | Path, strict: bool = False) -> None:
    """Write the report in the format that continuous integration systems read."""
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
                said = r.failure or f"on the CPU: {', '.join(r.cpu_operators())}"
                element = ElementTree.SubElement(case, kind, message=_xml(f"{r.verdict}: {said[:200]}"))
                element.text = _xml(f"{counts(r)}\n{said}")
    ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _xml(message: str) -> str:
    return _CONTROL.sub("?", message)
