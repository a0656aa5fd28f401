"""Charts as inline SVG and HTML. Colors are CSS variables, so that they follow the light or dark mode of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_HEIGHT = 100


def microseconds(value: float) -> str:
    """``12.3 ms``: a time in a suitable unit."""
    if value < 0:
        return f"-{microseconds(-value)}"
    for limit, scale, unit in ((1e3, 1.0, "µs"), (1e6, 1e3, "ms"), (float("inf"), 1e6, "s")):
        if value < limit:
            return f"{value / scale:.3g} {unit}" if value / scale < 100 else f"{value / scale:.0f} {unit}"
    return ""


def size(value: float) -> str:
    """``1.5 MiB``: a number of bytes in a suitable unit."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def percent(share: float) -> str:
    """``41%``."""
    return f"{100 * share:.1f}%" if 0 < share < 0.1 else f"{100 * share:.0f}%"


def legend(entries: Sequence[tuple[str, str, str]]) -> str:
    """Color, name and value of each entry."""
    items = (
        f'<li><i class="key {color}"></i><span>{escape(name)}</span><b>{escape(value)}</b></li>'
        for color, name, value in entries
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def stacked_bar(parts: Sequence[tuple[str, str, float]]) -> str:
    """One horizontal bar: color, tooltip and length of each part."""
    whole = sum(length for _, _, length in parts) or 1.0
    cells = (
        f'<span class="{color}" style="width:{100 * length / whole:.3f}%" title="{escape(tip)}"></span>'
        for color, tip, length in parts
        if length > 0
    )
    return f'<div class="stack">{"".join(cells)}</div>'


def bar(share: float, color: str = "accent") -> str:
    """A bar in a table cell."""
    return f'<div class="bar"><span class="{color}" style="width:{100 * min(1.0, share):.2f}%"></span></div>'


def columns(parts: Sequence[Sequence[float]], colors: Sequence[str], label: str) -> str:
    """Stacked columns over time. Each part is a share of 1."""
    width = 1000 / max(1, len(parts))
    shapes = []
    for index, color in enumerate(colors):
        path = []
        for column, values in enumerate(parts):
            below, height = sum(values[:index]) * _HEIGHT, values[index] * _HEIGHT
            if height > 0.2:
                top = _HEIGHT - below - height
                path.append(f"M{column * width:.2f} {top:.2f}h{width:.2f}v{height:.2f}h-{width:.2f}z")
        shapes.append(f'<path class="{color}" d="{"".join(path)}"/>')
    return _svg("".join(shapes), label)


def areas(curves: Sequence[tuple[str, Sequence[float]]], label: str) -> str:
    """Curves over time as filled steps, the largest first. All have the same scale."""
    highest = max((max(values, default=0.0) for _, values in curves), default=0.0) or 1.0
    shapes = []
    for color, values in curves:
        width = 1000 / max(1, len(values))
        steps = "".join(f"V{_HEIGHT - value / highest * (_HEIGHT - 4):.2f}h{width:.3f}" for value in values)
        shapes.append(f'<path class="{color}" d="M0 {_HEIGHT}{steps}V{_HEIGHT}z"/>')
    return _svg("".join(shapes), label)


def _svg(shapes: str, label: str) -> str:
    return (
        f'<svg class="chart" viewBox="0 0 1000 {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{shapes}</svg>'
    )


def axis(left: str, right: str, middle: str = "") -> str:
    """Labels below a chart."""
    return (
        f'<div class="axis"><span>{escape(left)}</span><span>{escape(middle)}</span><span>{escape(right)}</span></div>'
    )
