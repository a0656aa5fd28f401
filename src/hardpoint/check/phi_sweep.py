"""A sweep over Paddle's Phi kernels on the mounted device: ``hardpoint check phi``.

Every operator of Paddle is called with generated arguments, in every dtype, with gradients; every kernel that it
reaches is compared with Paddle's CPU kernel. See :mod:`hardpoint.check.phi_worker`.
"""

from __future__ import annotations

import json
import queue
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hardpoint.check.phi_worker import DTYPES, Record
from hardpoint.check.runner import WorkerDied, WorkerProcess

#: Verdicts, worst first: a kernel has the worst verdict of its calls. ``not compared``: the CPU kernel gave no result.
VERDICTS = ("crashed", "wrong", "unwritten", "refused", "same", "not compared", "not generated")
BAD = VERDICTS[:4]
TIMEOUT = 120.0
#: Number of processes that an entry may crash before the rest of it is given up.
MAX_DEATHS = 5
COMMAND = (sys.executable, "-m", "hardpoint.check.phi_worker")


@dataclass
class KernelResult:
    """The verdict on a kernel in one dtype."""

    kernel: str
    dtype: str
    verdict: str
    calls: int = 0
    #: Calls by tier.
    tiers: Counter[str] = field(default_factory=Counter)
    #: The worst call: the operator's call, the defect, the file for ``hardpoint replay``. Without a call, the reason.
    call: str = ""
    detail: str = ""
    saved: str = ""


@dataclass
class SweepReport:
    """The verdicts on all kernels."""

    device: str
    results: list[KernelResult]
    versions: dict[str, str]
    seconds: float

    @property
    def counts(self) -> Counter[str]:
        """Kernels, each in one dtype, by verdict."""
        return Counter(result.verdict for result in self.results)

    @property
    def bad(self) -> list[KernelResult]:
        """Results that are defects of the device."""
        return [result for result in self.results if result.verdict in BAD]

    @property
    def ok(self) -> bool:
        """Whether something was compared and nothing was wrong."""
        return bool(self.counts["same"]) and not self.bad

    def save(self, path: Path) -> None:
        """Write the full data to a JSON file."""
        path.write_text(json.dumps(self, default=vars, indent=1) + "\n")


def summarize(
    kernels: dict[str, list[str]], records: Iterable[Record], reasons: dict[str, str], skipped: dict[str, list[str]]
) -> list[KernelResult]:
    """One result for each kernel and dtype.

    ``reasons``: why a kernel is not generated. ``skipped``: entry -> messages ``DTYPE: REASON`` of the CPU.
    """
    found: dict[tuple[str, str], KernelResult] = {}
    for record in records:
        key = record.kernel, record.dtype
        result = found.setdefault(key, KernelResult(*key, "not generated"))
        result.calls += 1
        if record.tier:
            result.tiers[record.tier] += 1
        if VERDICTS.index(record.verdict) < VERDICTS.index(result.verdict):
            result.verdict, result.call, result.saved = record.verdict, record.call, record.saved
            result.detail = record.detail
    for kernel, dtypes in kernels.items():
        for dtype in dtypes:
            result = found.setdefault((kernel, dtype), KernelResult(kernel, dtype, "not generated"))
            if result.verdict == "not generated":
                result.detail = _why(kernel, dtype, reasons, skipped)
    return [found[key] for key in sorted(found)]


def _why(kernel: str, dtype: str, reasons: dict[str, str], skipped: dict[str, list[str]]) -> str:
    if reason := reasons.get(kernel):
        return reason
    base = re.sub(r"(_double|_triple)?_grad$", "", kernel)
    for entry in (kernel, base, f"{base}_"):
        for message in skipped.get(entry, ()):
            if message.startswith(f"{dtype}: "):
                return f"the CPU: {message.removeprefix(f'{dtype}: ')}"
    return "no generated call reaches it"


def run(
    *,
    ops: str = "",
    dtypes: Iterable[str] = DTYPES,
    jobs: int = 2,
    timeout: float = TIMEOUT,
    save: Path | None = None,
    progress: Callable[[int, int, str], None] | None = None,
) -> SweepReport:
    """Sweep the chosen device.

    ``ops`` is a regular expression for operators: with it, the report has only the kernels that they reach. ``save`` is
    a folder for failing calls.
    """
    from hardpoint import _discovery

    start = time.monotonic()
    device = str(_discovery.choose().name)
    wanted = list(dtypes)
    if unknown := [d for d in wanted if d not in DTYPES]:
        raise ValueError(f"unknown dtype {', '.join(unknown)}; expected {', '.join(DTYPES)}")
    if save is not None:
        save.mkdir(parents=True, exist_ok=True)
    common: dict[str, Any] = {"device": device, "save": save and str(save.resolve())}
    workers = [WorkerProcess(timeout, 0.0, COMMAND) for _ in range(jobs)]
    try:
        listed = next(iter(workers[0].request({**common, "list": "phi"})))
        entries: queue.SimpleQueue[str] = queue.SimpleQueue()
        match = re.compile(ops).search
        total = 0
        for entry in listed["entries"]:
            if match(entry):
                entries.put(entry)
                total += 1
        records: list[Record] = []
        skipped: dict[str, list[str]] = {}
        lock, done = threading.Lock(), [0]

        def work(worker: WorkerProcess) -> None:
            while True:
                try:
                    entry = entries.get_nowait()
                except queue.Empty:
                    return
                mine, why = _run_entry(worker, {**common, "entry": entry, "dtypes": wanted})
                with lock:
                    records.extend(mine)
                    skipped[entry] = why
                    done[0] += 1
                    if progress is not None:
                        progress(done[0], total, entry)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(work, workers))
    finally:
        for worker in workers:
            worker.kill()
    kernels = {} if ops else {k: [d for d in ds if d in wanted] for k, ds in listed["kernels"].items()}
    results = summarize(kernels, records, listed["reasons"], skipped)
    versions = {"hardpoint": version("hardpoint"), "paddlepaddle": version("paddlepaddle")}
    return SweepReport(device, results, versions, round(time.monotonic() - start, 1))


def _run_entry(worker: WorkerProcess, request: dict[str, Any]) -> tuple[list[Record], list[str]]:
    """Run an entry. A call that ends the process is left out of the next try."""
    crashes: list[Record] = []
    skip: list[str] = []
    ended: list[str] = []
    records: list[Record] = []
    for _ in range(MAX_DEATHS):
        records, at = [], ""
        try:
            for response in worker.request({**request, "skip": skip}):
                records += [Record(**record) for record in response.get("records", response.get("result", []))]
                if "result" in response:
                    return records + crashes, response["skipped"] + ended
                at = response["at"]
        except WorkerDied as death:
            found = re.match(r"((.*) in (\w+), order \d) on (\w+)$", at)
            if found is None:
                return [Record(request["entry"], "", "crashed", "", str(death)[:600])], []
            key, call, dtype, place = found.groups()
            skip.append(key)
            if place == "cpu":
                ended.append(f"{dtype}: the process ended in {call} on the CPU")
            else:  # the kernel is not known, so the entry's name stands for it
                crashes.append(Record(request["entry"], dtype, "crashed", "", str(death)[:600], call))
    return records + crashes, ended


def text(report: SweepReport, console: Console) -> None:
    """Print the counts, and each kernel that is wrong."""
    packages = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    kernels = {result.kernel for result in report.results}
    title = f"{report.device}: {len(kernels)} Phi kernels in {report.seconds:.0f} s ({packages})"
    table = Table("dtype", *VERDICTS, "calls", "in the CPU tier", title=title)
    for dtype in [d for d in DTYPES if any(r.dtype == d for r in report.results)]:
        _row(table, dtype, [r for r in report.results if r.dtype == dtype])
    table.add_section()
    _row(table, "all", report.results)
    console.print(table)
    for result in report.bad:
        console.print(
            f"[red]{result.verdict}[/] {result.kernel} in {result.dtype}: {escape(result.call)}", highlight=False
        )
        console.print(escape(result.detail), highlight=False, style="dim")
        if result.saved:
            console.print(f"  run it again: hardpoint replay {result.saved}", highlight=False, soft_wrap=True)
    reasons = Counter(result.detail for result in report.results if result.verdict == "not generated")
    if reasons:
        table = Table("not generated because", "kernels and dtypes")
        grouped = Counter[str]()
        for reason, count in reasons.items():
            grouped["the CPU rejects the arguments" if reason.startswith("the CPU: ") else reason] += count
        for reason, count in grouped.most_common():
            table.add_row(escape(reason), str(count))
        console.print(table)


def _row(table: Table, label: str, results: list[KernelResult]) -> None:
    counts = Counter(result.verdict for result in results)
    calls, on_cpu = sum(r.calls for r in results), sum(r.tiers["cpu"] for r in results)
    table.add_row(label, *(str(counts[v] or "") for v in VERDICTS), f"{calls:,}", f"{on_cpu:,}")
