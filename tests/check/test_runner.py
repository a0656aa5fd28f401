"""The worker protocol: responses, crashes, timeouts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from hardpoint.check import interruption
from hardpoint.check.runner import WorkerDied, WorkerProcess

#: A worker whose behavior depends on the entry's name.
WORKER = """
import ctypes, json, sys, time
for line in sys.stdin:
    request = json.loads(line)
    if request.get("list") == "broken":
        print(json.dumps({"error": "mode broken: ImportError: no expecttest"}), flush=True)
        continue
    if "list" in request:
        print(json.dumps({"entries": ["good", "crash", "hang", "exit"]}), flush=True)
        continue
    if request["entry"] == "load":
        print(json.dumps({"loading": "a database"}), flush=True)
        time.sleep(2.5)
    print(json.dumps({"at": "float32, sample 3"}), flush=True)
    name = request["entry"]
    if name == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        ctypes.string_at(0)
    if name == "hang":
        time.sleep(60)
    if name == "exit":
        sys.exit(5)
    print(json.dumps({"result": {"mode": request["mode"], "entry": name, "verdict": "strict"}}), flush=True)
"""


@pytest.fixture
def worker(tmp_path: Path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    made = WorkerProcess(timeout=1.5, memory=0, command=(sys.executable, str(script)))
    yield made
    made.close()


def test_crash_costs_one_entry(worker: WorkerProcess) -> None:
    names = worker.entries("ops", "")
    results = {name: worker.run("ops", name, {}) for name in [*names, "good"]}
    assert [results[n].verdict for n in names] == ["strict", "crashed", "crashed", "crashed"]
    assert results["crash"].failure.startswith("at float32, sample 3: the process ended with SIGSEGV")
    assert "about to crash" in results["crash"].failure
    assert "no response for 1.5 s" in results["hang"].failure
    assert "exit status 5" in results["exit"].failure
    assert results["good"].verdict == "strict"


def test_worker_that_cannot_start() -> None:
    worker = WorkerProcess(timeout=20, memory=0, command=(sys.executable, "-c", "raise SystemExit('no such device')"))
    with pytest.raises(WorkerDied, match="no such device"):
        worker.entries("ops", "")


def test_loading_does_not_count_as_a_hang(worker: WorkerProcess) -> None:
    assert worker.run("ops", "load", {}).verdict == "strict"


def test_mode_that_cannot_be_listed(worker: WorkerProcess) -> None:
    with pytest.raises(WorkerDied, match="no expecttest"):
        worker.entries("broken", "")
    assert worker.entries("ops", "")[0] == "good"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_repeated_signals_interrupt_once(number: signal.Signals) -> None:
    """`timeout -s INT` sends the signal twice; the second one must not end the report."""
    before = signal.getsignal(number)
    signal.signal(number, signal.default_int_handler)
    interruptions = []
    try:
        with interruption.reported():
            for _ in range(3):
                try:
                    signal.raise_signal(number)
                except KeyboardInterrupt:
                    interruptions.append(number)
        assert interruptions == [number]
        with interruption.reported(), pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.signal(number, signal.SIG_IGN)
        with interruption.reported():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)
