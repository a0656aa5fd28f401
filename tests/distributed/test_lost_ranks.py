"""Mismatched calls and lost ranks raise an error that names the rank and the collective before the timeout."""

from __future__ import annotations

import re

import pytest
from launcher import launch

WAYS = pytest.mark.parametrize("way", ["plugin", "host"])


def reported_failure(text: str) -> tuple[float, str]:
    found = re.search(r"after ([\d.]+) s: (.*)", text, re.DOTALL)
    assert found is not None, text
    return float(found[1]), found[2]


@WAYS
@pytest.mark.parametrize(
    ("case", "one", "other"),
    [
        ("shape", "all_reduce of 4 float", "all_reduce of 8 float"),
        ("dtype", "all_reduce of 4 float", "all_reduce of 4 (double|float64)"),
        ("operation", r"all_reduce of 4 float\w* \(sum\)", r"all_reduce of 4 float\w* \(max\)"),
        ("collective", "all_reduce of 4 float", "broadcast of (4 float|16 bytes)"),
    ],
)
def test_mismatched_calls(case: str, one: str, other: str, way: str) -> None:
    for ended in launch("failures.py", 2, case, HARDPOINT_COLLECTIVES=way):
        seconds, message = reported_failure(ended.text)
        assert seconds < 5, message
        assert re.search(one, message, re.IGNORECASE), message
        assert re.search(other, message, re.IGNORECASE), message
        assert "rank 0" in message, message
        assert "rank 1" in message, message


@WAYS
def test_mismatched_message_sizes(way: str) -> None:
    seconds, message = reported_failure(launch("failures.py", 2, "message", HARDPOINT_COLLECTIVES=way)[1].text)
    assert seconds < 8
    assert "rank 0" in message
    assert re.search("recv|receive", message), message


@pytest.mark.slow
@WAYS
@pytest.mark.parametrize("case", ["missing", "killed"])
def test_missing_rank(case: str, way: str) -> None:
    ended = launch("failures.py", 3, case, check=False, HARDPOINT_COLLECTIVES=way)
    for rank in (0, 2):
        seconds, message = reported_failure(ended[rank].text)
        assert seconds < 7, message  # the timeout is 6 s
        assert "all_reduce" in message
        assert re.search(r"\brank 1\b", message, re.IGNORECASE), message


@WAYS
def test_abort(way: str) -> None:
    seconds, message = reported_failure(launch("failures.py", 2, "abort", HARDPOINT_COLLECTIVES=way)[0].text)
    assert seconds < 5, message
    assert "abort" in message, message
