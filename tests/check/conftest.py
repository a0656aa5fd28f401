"""Sample reports, and the device under test."""

from __future__ import annotations

import os

os.environ.setdefault("HARDPOINT_DEVICE", "sim")

import pytest

from hardpoint.check import Count, Report, Result


def entry(name: str, verdict: str, cpu: tuple[str, ...] = (), mode: str = "ops", **more: object) -> Result:
    result = Result(mode, name, verdict, **more)  # type: ignore[arg-type]
    if not result.dtypes and verdict != "not tested":
        bad = verdict in ("failed", "partly")
        result.dtypes = {"float32": Count(passed=0 if verdict == "failed" else 3, failed=int(bad), cpu=bool(cpu))}
    result.tiers = {f"aten::{op}": {"float32": {"cpu": 1}} for op in cpu} | {"aten::exp": {"float32": {"portable": 2}}}
    return result


@pytest.fixture
def report() -> Report:
    return Report(
        "sim",
        [
            entry("exp", "strict"),
            entry("sort", "correct", ("sort.values_stable",)),
            entry("msort", "correct", ("sort.values_stable", "sort")),
            entry("median", "correct", ("sort.values_stable", "kthvalue.values")),
            entry("cov", "partly", ("min",), failure="float32, sample 2: <not> close & \x00 wrong"),
            entry("svd", "crashed", failure="at float32: the process ended with SIGSEGV"),
            entry("to_sparse", "not tested", detail="makes a sparse tensor"),
            entry("threads", "passed", mode="runtime", detail="4 threads"),
        ],
        {"torch": "2.13.0"},
    )
