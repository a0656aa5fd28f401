"""Minimal subsets by delta debugging: halves the set while one half fails, else finds elements that fail together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Element = TypeVar("Element")


def minimal_subset(elements: Sequence[Element], fails: Callable[[list[Element]], bool]) -> list[Element]:
    """A failing subset from which no element can be removed. ``fails`` must hold for the whole set."""
    current = list(elements)
    parts = 2
    while len(current) >= 2:
        size = (len(current) + parts - 1) // parts
        chunks = [current[i : i + size] for i in range(0, len(current), size)]
        rests = [[e for e in current if e not in chunk] for chunk in chunks] if len(chunks) > 2 else []
        smaller = next((chunk for chunk in chunks if fails(chunk)), None)
        if smaller is not None:
            current, parts = smaller, 2
            continue
        smaller = next((rest for rest in rests if fails(rest)), None)
        if smaller is not None:
            current, parts = smaller, max(parts - 1, 2)
        elif parts >= len(current):
            break
        else:
            parts = min(len(current), parts * 2)
    return current


def smallest_prefix(last: int, fails: Callable[[int], bool]) -> int:
    """The smallest number in 1..last that fails, if every larger one does. ``fails(last)`` must hold."""
    low, high = 1, last
    while low < high:
        middle = (low + high) // 2
        if fails(middle):
            high = middle
        else:
            low = middle + 1
    return high
