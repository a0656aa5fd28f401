"""The HTML page of a report: self-contained, for light and dark mode, wide and narrow windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from hardpoint import _html
from hardpoint.debug._report import charts
from hardpoint.debug._report.charts import microseconds, percent, size
from hardpoint.debug._report.figures import DeviceTime, Figures, MemoryUse
from hardpoint.debug.compare import describe_difference

#: Rows of a table before "show all".
MAX_ROWS = 60
#: Share of the run below which no advice is given.
WORTH_IT = 0.01

_CAUSE_NAMES = {
    "compilation": "kernels are being compiled",
    "cpu": "operators run on the CPU",
    "wait": "the program waited for the device",
    "launch": "operators are being launched",
    "program": "the program does other things",
}
_CAUSE_ADVICE = {
    "compilation": "nothing: the next run finds them in the cache",
    "cpu": "write the kernels listed above",
    "wait": "print, item() and cpu() less often, or use non_blocking copies",
    "launch": "larger batches, graph mode (torch.compile) or fused operators",
    "program": "data loading, Python code: more workers, or prefetching",
}

_STYLE = """
:root { --vendor: #2da562; --portable: #3b7ddd; --decomposition: #d99a1c; --cpu: #d6453d; --copy: #8a8f98;
  --wait: #8a63d2; --compilation: #4aa7b5; --launch: #e07b39; --program: #b9bec7; --accent: #3b7ddd; --soft: #cfe0f8; }
@media (prefers-color-scheme: dark) { :root { --vendor: #3fb97a; --portable: #5b98ef; --decomposition: #e0aa3c;
  --cpu: #ec6a60; --copy: #8d949e; --wait: #a585e6; --compilation: #5fc0ce;
  --launch: #ee9355; --program: #5a616b; --accent: #5b98ef; --soft: #2c4568; } }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(11em, 1fr)); gap: .8em; margin: 1.2em 0; }
.card { background: var(--raised); border: 1px solid var(--line); border-radius: 10px; padding: .8em 1em; }
.card b { display: block; font-size: 1.7em; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.card span { color: var(--muted); font-size: .9em; }
h3 { margin: 1em 0 .3em; } h4 { margin: 1.2em 0 0; } .scroll table { margin: .4em 0 1em; }
section { margin: 2.2em 0; } section > p { max-width: 62em; color: var(--muted); margin: .3em 0 .9em; }
ol.next { padding: 0; margin: .6em 0; list-style: none; counter-reset: next; }
ol.next li { counter-increment: next; background: var(--raised); border: 1px solid var(--line); border-radius: 10px;
  padding: .75em 1em .75em 3.2em; margin: .5em 0; position: relative; }
ol.next li::before { content: counter(next); position: absolute; left: 1em; top: .75em; width: 1.5em; height: 1.5em;
  border-radius: 50%; background: var(--accent); color: #fff; text-align: center; font-size: .9em; line-height: 1.5em;
  font-weight: 650; }
ol.next b { font-weight: 650; } ol.next small { display: block; color: var(--muted); font-size: .93em; }
.stack { display: flex; height: 26px; border-radius: 6px; overflow: hidden; background: var(--line); margin: .5em 0; }
.stack span { min-width: 1px; }
.bar { width: 100%; min-width: 5em; height: .7em; margin-top: .4em; border-radius: 4px; background: var(--line);
  overflow: hidden; }
.bar span { display: block; height: 100%; }
span.vendor, i.vendor { background: var(--vendor); } span.portable, i.portable { background: var(--portable); }
span.decomposition, i.decomposition { background: var(--decomposition); } span.cpu, i.cpu { background: var(--cpu); }
span.copy, i.copy { background: var(--copy); } span.wait, i.wait { background: var(--wait); }
span.compilation, i.compilation { background: var(--compilation); }
span.launch, i.launch { background: var(--launch); } span.program, i.program { background: var(--program); }
span.accent, i.accent { background: var(--accent); } span.soft, i.soft { background: var(--soft); }
path.vendor { fill: var(--vendor); } path.copy { fill: var(--copy); } path.none { fill: transparent; }
path.accent { fill: var(--accent); } path.soft { fill: var(--soft); }
.chart { display: block; width: 100%; height: 110px; background: var(--raised); border: 1px solid var(--line);
  border-radius: 8px; }
.axis { display: flex; justify-content: space-between; color: var(--muted); font-size: .85em; margin-top: .2em; }
ul.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .2em 1.4em; padding: 0; margin: .5em 0 1em; }
ul.legend b { font-weight: 600; margin-left: .4em; font-variant-numeric: tabular-nums; }
.key { display: inline-block; width: .8em; height: .8em; border-radius: 3px; margin-right: .45em; }
.tier { display: inline-block; padding: 0 .5em; border-radius: 5px; font-size: .88em; color: #fff; }
.note { color: var(--muted); font-size: .92em; }
.warn { border-left: 4px solid var(--launch); background: var(--raised); padding: .6em 1em; border-radius: 4px; }
"""


_NO_OPERATOR = "<p>No operator of a device ran.</p>"


def render(figures: Figures) -> str:
    """The whole page."""
    sections = [
        ("What to do next", _next(figures)),
        ("Where the time goes", "".join(_device(device, figures) for device in figures.devices) or _nothing()),
        ("Write this kernel next", _kernels(figures)),
        ("Time by operator and tier", _operators(figures)),
        ("Waits for the device", _waits(figures)),
        ("Memory", "".join(_memory(use) for use in figures.memory) or "<p>No allocations were traced.</p>"),
    ]
    if compared := _comparison(figures):
        sections.append(("Comparison with the CPU", compared))
    command = " ".join(figures.data.totals.get("command", [])) or "an unfinished run"
    return _html.page(f"Report on {command}", _warnings(figures), sections, _head(figures), style=_STYLE)


def write(figures: Figures, file: Path) -> None:
    """Write the page to a file."""
    file.write_text(render(figures), encoding="utf-8")


def _nothing() -> str:
    return "<p>The program ran nothing on a device.</p>"


def _warnings(figures: Figures) -> list[str]:
    found = []
    if not figures.data.complete:
        found.append("The trace is incomplete: the program was killed, or the disk was full. The figures end there.")
    if figures.data.totals.get("compare"):
        found.append("The comparison with the CPU was on, which slows the program down: times are not typical.")
    if figures.data.timed_by_host:
        found.append("The plug-in has no timed events: Hardpoint waited after each launch and took the host's time.")
    return found


def _head(figures: Figures) -> str:
    data = figures.data
    busy = sum(device.computing for device in figures.devices)
    span = sum(device.end - device.start for device in figures.devices) or 1.0
    peak = max((use.peak for use in figures.memory), default=0)
    cards = [
        (microseconds(figures.duration), "from the first to the last work of the device"),
        (percent(busy / span), "of that, the device was computing"),
        (
            percent(figures.cpu_time / figures.duration) if figures.duration else "0%",
            "of that, operators ran on the CPU",
        ),
        (size(figures.cpu_bytes), "copied for operators on the CPU"),
        (size(peak), "device memory at the peak"),
    ]
    boxes = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>' for value, label in cards
    )
    frameworks = ", ".join(f"{name} {version}" for name, version in data.totals.get("frameworks", {}).items())
    facts = [
        ("devices", ", ".join(data.devices) or "none"),
        ("date", data.about.get("date", "unknown")),
        ("versions", ", ".join(filter(None, (f"hardpoint {data.about.get('hardpoint', '')}", frameworks)))),
    ]
    return f'<div class="cards">{boxes}</div>{_html.facts(facts)}'


# ---- Advice


def _next(figures: Figures) -> str:
    whole = figures.duration or 1.0
    found: list[tuple[float, str, str]] = []
    for each in figures.advice[:3]:
        where = "on the CPU" if each.tier == "cpu" else "as a decomposition"
        found.append(
            (
                each.gain,
                f"Write a kernel for {each.operator}",
                f"{_times(each.calls)} {where} take {microseconds(each.now)}. A kernel saves about "
                f"{microseconds(each.gain)}, {percent(each.gain / whole)} of the run.",
            )
        )
    for wait in figures.waits[:2]:
        if wait.line and wait.idle > 0:
            found.append(
                (
                    wait.idle,
                    f"Wait less often at {wait.line}",
                    f"{wait.waits:,} waits there take {microseconds(wait.waited)}, and the device idles "
                    f"{microseconds(wait.idle)} after them, {percent(wait.idle / whole)} of the run.",
                )
            )
    compilation = sum(device.idle["compilation"] for device in figures.devices)
    found.append(
        (
            compilation,
            "Run it again",
            f"The device idles {microseconds(compilation)}, {percent(compilation / whole)} of the run, while kernels "
            "are compiled. They are cached now: make the report again from a second run.",
        )
    )
    launch = sum(device.idle["launch"] for device in figures.devices)
    found.append(
        (
            launch,
            "Launch less",
            f"The device idles {microseconds(launch)}, {percent(launch / whole)} of the run, while operators are being "
            "launched. Larger batches, torch.compile or fused operators help.",
        )
    )
    program = sum(device.idle["program"] for device in figures.devices)
    longest = max(
        (gap for device in figures.devices for gap in device.gaps if gap.cause == "program" and gap.detail),
        key=lambda gap: gap.length,
        default=None,
    )
    where = f" The longest gap, {microseconds(longest.length)}, is at {longest.detail}." if longest is not None else ""
    found.append(
        (
            program,
            "Look at the program itself",
            f"The device idles {microseconds(program)}, {percent(program / whole)} of the run, while the program does "
            f"other things, such as loading data.{where}",
        )
    )
    wrong = (figures.data.totals.get("compare") or {}).get("wrong", 0)
    worthwhile = sorted((each for each in found if each[0] >= WORTH_IT * whole), key=lambda each: -each[0])
    items = [(title, text) for _, title, text in worthwhile]
    if wrong:
        items.insert(0, ("Fix wrong results first", f"{_times(wrong)} differ from the CPU; see the comparison below."))
    if not figures.devices and not figures.operators:
        text = "Nothing ran there. Move the model and its data to the device; `hardpoint devices` lists the devices."
        items.append(("Use the device", text))
    if not items:
        return "<p>Nothing stands out: the device computes almost all the time.</p>"
    entries = (f"<li><b>{escape(title)}</b><small>{escape(text)}</small></li>" for title, text in items)
    return f'<ol class="next">{"".join(entries)}</ol>'


def _times(count: int) -> str:
    return "1 call" if count == 1 else f"{count:,} calls"


def _kernels(figures: Figures) -> str:
    if not figures.operators:
        return _NO_OPERATOR
    if not figures.advice:
        return "<p>Every operator was served by a kernel.</p>"
    best = figures.advice[0].gain
    rows = [
        (
            str(number),
            _code(each.operator),
            _tier(each.tier),
            f"{each.calls:,}",
            microseconds(each.now),
            microseconds(each.gain),
            percent(each.gain / figures.duration) if figures.duration else "",
            charts.bar(each.gain / best, each.tier),
        )
        for number, each in enumerate(figures.advice, 1)
    ]
    typical = microseconds(figures.typical_call) if figures.typical_call else "nothing"
    text = (
        "Ranked by the expected gain: the time of the calls now, minus the time in which the device still worked on "
        "earlier launches, minus the time of the same number of typical calls. A typical call, the median of those "
        f"that a kernel serves, takes {typical} on the host in this run. The time of the kernel itself is not known, "
        "so a heavy operator gains less."
    )
    heads = ("#", "operator", "served by", "calls", "takes now", "expected gain", "of the run", "")
    return f"<p>{escape(text)}</p>{_table(heads, rows, 'kernels', numbers={3, 4, 5, 6})}"


# ---- Time


def _device(device: DeviceTime, figures: Figures) -> str:
    span = (device.end - device.start) or 1.0
    parts = [
        ("vendor", "computing", device.computing),
        ("copy", "copying", device.copying),
        *((cause, f"idle: {_CAUSE_NAMES[cause]}", device.idle[cause]) for cause in _CAUSE_NAMES),
    ]
    named = [(color, f"{name}: {microseconds(length)}", length) for color, name, length in parts]
    shown = [(color, name, f"{percent(length / span)}, {microseconds(length)}") for color, name, length in parts]
    copies = [
        (escape(name), f"{count:,}", size(moved), microseconds(time))
        for name, (count, moved, time) in sorted(device.copies.items(), key=lambda entry: -entry[1][2])
    ]
    gaps = [
        (
            microseconds(gap.start - device.start),
            microseconds(gap.length),
            f'<i class="key {gap.cause}"></i>{escape(_CAUSE_NAMES[gap.cause])}',
            _code(gap.detail) if gap.detail else "",
            escape(_CAUSE_ADVICE[gap.cause]),
        )
        for gap in device.gaps[:8]
    ]
    blocks = [
        f"<h3>{escape(device.name)}</h3>",
        charts.stacked_bar(named),
        charts.legend(shown),
        charts.columns(device.activity, ("vendor", "copy", "none"), f"activity of {device.name} over time"),
        charts.axis("0", microseconds(span), "computing and copying over time"),
    ]
    if gaps:
        heads = ("at", "length", "cause", "where", "what helps")
        blocks.append(f"<h4>Longest gaps</h4>{_table(heads, gaps, numbers={0, 1})}")
    if copies:
        blocks.append(f"<h4>Copies</h4>{_table(('copy', 'count', 'bytes', 'time'), copies, numbers={1, 2, 3})}")
    return "".join(blocks)


def _operators(figures: Figures) -> str:
    if not figures.operators:
        return _NO_OPERATOR
    tiers: dict[str, list[float]] = {}
    for row in figures.operators:
        totals = tiers.setdefault(row.tier, [0.0, 0.0, 0.0])
        totals[0] += row.calls
        totals[1] += row.own
        totals[2] += row.device
    order = [tier for tier in ("vendor", "portable", "decomposition", "cpu") if tier in tiers]
    parts = [(tier, f"{tier}: {microseconds(tiers[tier][1])}", tiers[tier][1]) for tier in order]
    entries = [(tier, tier, f"{_times(int(tiers[tier][0]))}, {microseconds(tiers[tier][1])}") for tier in order]
    most = max((max(row.own, row.device) for row in figures.operators), default=0.0) or 1.0
    rows = [
        (
            _code(row.operator),
            _tier(row.tier),
            f"{row.calls:,}",
            microseconds(row.own),
            microseconds(row.device),
            size(row.bytes) if row.bytes else "",
            charts.bar(max(row.own, row.device) / most, row.tier),
            _code(", ".join(row.lines)) if row.lines else "",
        )
        for row in figures.operators
    ]
    heads = ("operator", "tier", "calls", "on the host", "on the device", "copied", "", "called at")
    text = (
        "Host time excludes nested operators and compilations. In the CPU tier, it is the computation and both copies."
    )
    table = _table(heads, rows, "operators", numbers={2, 3, 4, 5})
    return f"<p>{text}</p>{charts.stacked_bar(parts)}{charts.legend(entries)}{table}"


def _waits(figures: Figures) -> str:
    if not figures.waits:
        return "<p>The program never waited for the device.</p>"
    rows = [
        (_code(wait.line or "unknown line"), f"{wait.waits:,}", microseconds(wait.waited), microseconds(wait.idle))
        for wait in figures.waits
    ]
    text = (
        "Lines that wait for the device. While the host waits, it launches nothing. Idle time afterwards counts as far "
        "as the host would have been ahead without the wait."
    )
    heads = ("line", "waits", "waited", "device idle afterwards")
    return f"<p>{text}</p>{_table(heads, rows, 'waits', numbers={1, 2, 3})}"


# ---- Memory


def _memory(use: MemoryUse) -> str:
    span = use.end - use.start
    entries = [
        ("accent", "allocated", f"{size(use.peak)} at the peak, after {microseconds(use.peak_time - use.start)}"),
        ("soft", "reserved by the allocator", f"up to {size(use.reserved)}"),
    ]
    rows = [
        (_code(owner.line), size(owner.bytes), f"{owner.blocks:,}", charts.bar(owner.bytes / (use.peak or 1)))
        for owner in use.owners
    ]
    return "".join(
        (
            f"<h3>{escape(use.name)}</h3>",
            charts.areas((("soft", use.reserved_curve), ("accent", use.allocated_curve)), f"memory of {use.name}"),
            charts.axis("0", microseconds(span), "device memory over time"),
            charts.legend(entries),
            "<h4>Who held it at the peak</h4>",
            _table(("allocated at", "bytes", "blocks", ""), rows, f"owners-{use.name}", numbers={1, 2}),
        )
    )


# ---- Comparison


def _comparison(figures: Figures) -> str:
    compared = figures.data.totals.get("compare")
    if not compared:
        return ""
    entries = [
        ("vendor", "right", f"{compared.get('right', 0):,} calls"),
        ("cpu", "wrong", f"{compared.get('wrong', 0):,} calls"),
        ("program", "not compared", f"{compared.get('not compared', 0):,} calls"),
    ]
    text = charts.legend(entries)
    rows = [
        (
            _code(found["operator"]),
            _tier(found["tier"]),
            escape(found["location"]),
            escape(describe_difference(found)),
            _code(f"hardpoint replay {found['saved']}") if "saved" in found else "",
        )
        for found in compared["findings"]
    ]
    if rows:
        text += _table(("operator", "tier", "at", "difference", "run it again"), rows, "wrong")
    return text


# ---- Parts


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _tier(tier: str) -> str:
    return f'<span class="tier {tier}">{escape(tier)}</span>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], name: str = "", numbers: Iterable[int] = ()) -> str:
    """A table of HTML cells. Long ones show their first rows; the filter searches all."""
    listed = list(rows)
    filled = [i for i in range(len(heads)) if not listed or any(row[i] for row in listed)]  # empty columns are left out
    listed = [[row[i] for i in filled] for row in listed]
    right = {filled.index(i) for i in numbers if i in filled}
    heads = [heads[i] for i in filled]
    kind = ['class="number"' if i in right else "" for i in range(len(heads))]
    lines = []
    if len(listed) > MAX_ROWS and name:
        lines.append(f'<p><input data-table="{escape(name)}" placeholder="filter {len(listed)} rows by words"></p>')
    identity = f' id="{escape(name)}"' if name else ""
    lines.append(f'<div class="scroll"><table{identity}><thead><tr>')
    lines += [f"<th {kind[i]}>{escape(head)}</th>" for i, head in enumerate(heads)]
    lines.append("</tr></thead><tbody>")
    lines += ["<tr>" + "".join(f"<td {kind[i]}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>" for row in listed]
    lines.append("</tbody></table></div>")
    return "".join(lines)
