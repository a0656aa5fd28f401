"""Self-contained HTML reports with tables that can be sorted and filtered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #1a1a1a; }
table { border-collapse: collapse; width: 100%; margin: 1em 0; }
th, td { border-bottom: 1px solid #ddd; padding: .3em .6em; text-align: left; vertical-align: top; }
th { position: sticky; top: 0; background: #f4f4f4; cursor: pointer; user-select: none; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td { overflow-wrap: anywhere; }
input { font: inherit; padding: .3em .6em; width: 24em; }
.good { color: #116329; } .fair { color: #7a5b00; } .bad { color: #b3261e; } .none { color: #777; }
"""

_SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    let up = false;
    head.onclick = () => {
      up = !up;
      const value = row => row.cells[column].textContent;
      const rows = [...body.rows].sort((a, b) => {
        const x = parseFloat(value(a)), y = parseFloat(value(b));
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

#: Verdict or tier -> CSS class of its cell.
CLASSES = {
    **dict.fromkeys(("strict", "passed", "vendor", "portable", "adapter"), "good"),
    **dict.fromkeys(("correct", "decomposition", "composite"), "fair"),
    **dict.fromkeys(("partly", "failed", "crashed", "cpu"), "bad"),
    "not tested": "none",
}


def table(name: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a filter field. Cells with a verdict or a tier are colored."""
    lines = [f'<p><input data-table="{escape(name)}" placeholder="filter rows by words"></p>']
    lines.append(f'<table id="{escape(name)}"><thead><tr>')
    lines += [f"<th>{escape(column)}</th>" for column in columns]
    lines.append("</tr></thead><tbody>")
    for row in rows:
        cells = []
        for value in row:
            kind = "number" if isinstance(value, (int, float)) else CLASSES.get(str(value), "")
            cells.append(f'<td class="{kind}">{escape(str(value))}</td>' if kind else f"<td>{escape(str(value))}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody></table>")
    return "\n".join(lines)


def page(title: str, paragraphs: Iterable[str], sections: Iterable[tuple[str, str]]) -> str:
    """A document with plain-text paragraphs, then sections of a heading and HTML."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(text)}</p>" for text in paragraphs),
        *(f"<h2>{escape(heading)}</h2>\n{body}" for heading, body in sections),
        f"<script>{_SCRIPT}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"
