"""Writes docs/coverage.md from a conformance report: ``python -m hardpoint.tools.gaps REPORT > docs/coverage.md``."""

from __future__ import annotations

import sys
from pathlib import Path

from hardpoint.check.report import BAD, Blocker, Report

HEAD = """\
# What runs where, and what is missing

Generated from a conformance report by `python -m hardpoint.tools.gaps`; do not edit it by hand. `hardpoint check`
makes the report; [its page](check.md) says what each verdict means.

"""

_MODES = {"ops": "Operators", "modules": "Modules", "optim": "Optimizers"}


def _cell(text: str, limit: int = 160) -> str:
    flat = " ".join(text.split()).replace("|", "\\|")
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def _example(blocker: Blocker) -> str:
    return _cell(", ".join(blocker.examples))


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n\n"


def markdown(report: Report) -> str:
    """The whole page."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    parts = [HEAD, f"Device `{report.device}`; {versions}.\n\n"]
    rows: list[tuple[str, ...]] = []
    for mode in (m for m in _MODES if report.of(m)):
        tested, right, strict = report.percentages(mode)
        verdicts = ", ".join(f"{n} {v}" for v, n in report.verdicts(mode).items())
        rows.append((_MODES[mode], str(tested), f"{right:.1f}%", f"{strict:.1f}%", verdicts))
    parts.append(_table(("", "tested", "correct in some tier", "without the CPU tier", "verdicts"), rows))
    for mode in (m for m in _MODES if report.of(m)):
        rows = [
            (dtype, str(tested), f"{100 * right / tested:.1f}%", f"{100 * strict / tested:.1f}%")
            for dtype, (tested, right, strict) in report.by_dtype(mode).items()
        ]
        parts.append(f"## {_MODES[mode]} by dtype\n\n")
        parts.append(_table(("dtype", "entries", "correct", "without the CPU tier"), rows))
    wrong = [r for r in report.results if r.verdict in BAD]
    parts.append("## Wrong\n\n")
    rows = [(f"`{r.entry}`", r.mode, r.verdict, _cell(r.failure)) for r in wrong]
    parts.append(_table(("entry", "mode", "verdict", "first failure"), rows) if rows else "Nothing.\n\n")
    parts.append("## Served by the CPU\n\n")
    parts.append(
        "How many entries would be strict if this operator alone were served on the device, and how many wait "
    )
    parts.append("for it and others.\n\n")
    rows = [
        (f"`{b.operator}`", str(b.alone), str(b.alone_real), str(b.entries), ", ".join(b.dtypes), _example(b))
        for b in report.blockers([m for m in _MODES if report.of(m)])
    ]
    columns = ("operator", "strict if served", "without complex", "entries", "dtypes", "such as")
    parts.append(_table(columns, rows) if rows else "Nothing.\n\n")
    parts.append("## Not tested\n\n")
    rows = [(f"`{r.entry}`", r.mode, _cell(r.detail)) for r in report.results if r.verdict == "not tested"]
    parts.append(_table(("entry", "mode", "reason"), rows) if rows else "Nothing.\n\n")
    return "".join(parts).rstrip("\n") + "\n"


def write(report: str | Path, page: str | Path) -> None:
    """Write the page from a JSON report."""
    Path(page).write_text(markdown(Report.load(report)))


if __name__ == "__main__":
    print(markdown(Report.load(sys.argv[1])), end="")
