"""Self-contained HTML reports with tables that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1a1a1a; --muted: #666; --line: #e2e4e8; --raised: #f6f7f9;
  --good: #116329; --fair: #7a5b00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --text: #e4e6e9; --muted: #9aa1ab; --line: #31363d;
  --raised: #1d2126; --good: #58c27d; --fair: #e0b23f; --bad: #f28b82; } }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: var(--text);
  background: var(--page); }
h1 { font-size: 1.7em; line-height: 1.25; overflow-wrap: break-word; } h2 { font-size: 1.25em; margin-bottom: .3em; }
table { border-collapse: collapse; width: 100%; margin: 1em 0; }
th, td { border-bottom: 1px solid var(--line); padding: .3em .6em; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: var(--raised); cursor: pointer; user-select: none; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number, td.word { white-space: nowrap; }
td { overflow-wrap: break-word; }
.scroll { overflow-x: auto; } .scroll th, .scroll td { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content auto; gap: .2em 1em; }
dt { color: var(--muted); } dd { margin: 0; }
code { font: 12px/1.5 ui-monospace, monospace; }
input { font: inherit; padding: .3em .6em; width: 24em; max-width: 100%; box-sizing: border-box; color: inherit;
  background: var(--raised); border: 1px solid var(--line); border-radius: 5px; }
.good { color: var(--good); } .fair { color: var(--fair); } .bad { color: var(--bad); } .none { color: var(--muted); }
"""

_SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let up = false;
    head.onclick = () => {
      up = !up;
      const value = row => row.cells[column].textContent.replaceAll(",", "");
      const units = {"µs": 1, "ms": 1e3, "s": 1e6, "KiB": 2 ** 10, "MiB": 2 ** 20, "GiB": 2 ** 30, "TiB": 2 ** 40};
      const amount = text => parseFloat(text) * (units[text.split(" ")[1]] || 1);
      const rows = [...body.rows].sort((a, b) => {
        const x = amount(value(a)), y = amount(value(b));
        const order = isNaN(x) || isNaN(y) ? value(a).localeCompare(value(b)) : x - y;
        return up ? order : -order;
      });
      body.append(...rows);
    };
  });
}
for (const input of document.querySelectorAll("input")) {
  const body = document.getElementById(input.dataset.table).tBodies[0];
  input.oninput = () => {
    const words = input.value.toLowerCase().split(" ");
    for (const row of body.rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every(word => text.includes(word));
    }
  };
}
"""

#: Longer words may break.
MAX_WORD = 60
#: Verdict or tier -> CSS class of its cell.
CLASSES = {
    **dict.fromkeys(("strict", "passed", "vendor", "portable", "adapter"), "good"),
    **dict.fromkeys(("correct", "decomposition", "composite"), "fair"),
    **dict.fromkeys(("partly", "failed", "crashed", "cpu"), "bad"),
    "not tested": "none",
}


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]], *, filtered: bool = True) -> str:
    """A table with a filter field. Cells with a verdict or a tier are colored, and numbers are aligned to the right."""
    rows = list(rows)
    numeric = [bool(rows) and all(isinstance(row[i], (int, float)) for row in rows) for i in range(len(columns))]
    field = f'<p><input data-table="{escape(name)}" placeholder="filter rows by words"></p>'
    lines = [field] if filtered else []
    lines.append(f'<table id="{escape(name)}"><thead><tr>')
    lines += [_cell("th", "number" if is_number else "", c) for c, is_number in zip(columns, numeric, strict=True)]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        cells = (_cell("td", _kind(value, numeric[i]), str(value)) for i, value in enumerate(row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table>")
    return "\n".join(lines)


def _kind(value: object, is_number: bool) -> str:
    """CSS classes of a cell. A single word stays on one line."""
    text = str(value)
    word = "word" if len(text) <= MAX_WORD and " " not in text else ""
    return "number" if is_number else " ".join(filter(None, (CLASSES.get(text, ""), word)))


def _cell(tag: str, kind: str, text: str) -> str:
    return f'<{tag} class="{kind}">{escape(text)}</{tag}>' if kind else f"<{tag}>{escape(text)}</{tag}>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A list of names and values."""
    return f"<dl>{''.join(f'<dt>{escape(name)}</dt><dd>{escape(value)}</dd>' for name, value in pairs)}</dl>"


def page(
    title: str,
    paragraphs: Iterable[str],
    sections: Iterable[tuple[str, str]],
    head: str = "",
    style: str = "",
) -> str:
    """A document with plain-text paragraphs and HTML ``head``, then sections of a heading and HTML."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{_STYLE}{style}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in paragraphs),
        head,
        *(f"<section><h2>{escape(heading)}</h2>\n{body}</section>" for heading, body in sections),
        f"<script>{_SCRIPT}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"
