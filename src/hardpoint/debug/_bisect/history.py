"""Runs trials in processes, and saves their outcomes in a file so that an interrupted search can continue."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardpoint.debug._bisect.trial import Selection, Settings

_NUMBER = r"[-+]?(?:\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+(?:[eE][-+]?\d+)?|nan|inf)\b"
VERSION = 1


class SearchError(ValueError):
    """The search cannot continue; the message says why."""


@dataclass
class Outcome:
    """The outcome of a run of the program."""

    status: int
    metric: float | None
    operators: dict[str, int] = field(default_factory=dict)
    random: list[str] = field(default_factory=list)
    modules: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    saved: str = ""

    def show(self) -> str:
        """The metric, or the exit status without one."""
        return f"exit status {self.status}" if self.metric is None else f"{self.metric:.6g}"


def find_metric(output: str, pattern: str) -> float | None:
    """The last number in the program's output that the pattern matches; without a pattern, the last one of all."""
    found = re.findall(pattern, output) if pattern else re.findall(_NUMBER, output, re.IGNORECASE)
    if not found:
        return None
    text = found[-1] if isinstance(found[-1], str) else next(filter(None, found[-1]), "")
    if pattern and not _is_number(text) and (inside := re.findall(_NUMBER, text, re.IGNORECASE)):
        text = inside[-1]  # a pattern without a group: "loss: 0.5"
    try:
        return float(text)
    except ValueError:
        raise SearchError(f"--metric: '{pattern}' found '{text}', which is not a number") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def diverges(outcome: Outcome, reference: Outcome, tolerance: float) -> bool:
    """Whether a run differs from the reference: by its exit status, else by its metric."""
    if outcome.status != reference.status or (outcome.metric is None) != (reference.metric is None):
        return True
    if outcome.metric is None or reference.metric is None:
        return False
    if math.isnan(reference.metric) or math.isinf(reference.metric):
        return not (outcome.metric == reference.metric or (math.isnan(outcome.metric) and math.isnan(reference.metric)))
    difference = abs(outcome.metric - reference.metric)
    return not difference <= tolerance * max(abs(reference.metric), 1e-12)


class History:
    """The runs of one program. Outcomes are saved in the file ``state``."""

    def __init__(
        self, script: Path, arguments: list[str], metric: str, state: Path, restart: bool, say: Callable[[str], None]
    ) -> None:
        self.script = script
        self.arguments = arguments
        self.metric = metric
        self.state = state
        self.fixed: list[str] = []
        self._say = say
        self._known: dict[str, dict[str, Any]] = {}
        try:
            self._input_start: int | None = os.lseek(0, 0, os.SEEK_CUR)
        except OSError:  # a pipe or a terminal
            self._input_start = None
        self.number = 0
        self._header = {
            "version": VERSION,
            "script": str(script),
            "digest": hashlib.sha256(script.read_bytes()).hexdigest(),
            "arguments": arguments,
            "metric": metric,
            "device": os.environ.get("HARDPOINT_DEVICE", ""),
        }
        if not restart:
            self._load()

    def _load(self) -> None:
        try:
            saved = json.loads(self.state.read_text())
        except (OSError, ValueError):
            return
        if {name: saved.get(name) for name in self._header} != self._header:
            self._say(f"{self.state} belongs to another program or another version of it: starting over")
            return
        if saved.get("finished"):  # the kernels may have been mended since
            self._say(f"the search in {self.state} was finished: starting over")
            return
        self._known = saved["trials"]
        if self._known:
            self._say(f"continuing with {len(self._known)} runs from {self.state}")

    def _store(self, finished: bool = False) -> None:
        temporary = self.state.with_name(self.state.name + ".tmp")
        temporary.write_text(json.dumps({**self._header, "finished": finished, "trials": self._known}, indent=1))
        temporary.replace(self.state)

    def finish(self) -> None:
        """The search is over: the next one does not go on with these runs."""
        self._store(finished=True)

    def run(self, selection: Selection, located: list[str] | None = None) -> tuple[Outcome, bool]:
        """The outcome, and whether it was already known. Lists the modules of the operators in ``located``."""
        self.number += 1
        key = json.dumps([asdict(selection), located or [], self.fixed], sort_keys=True)
        if key in self._known:
            return Outcome(**self._known[key]), True
        outcome = self._execute(selection, located or [], "")
        self._known[key] = asdict(outcome)
        self._store()
        return outcome, False

    def _input(self) -> int | None:
        """Standard input for a run: the file from where it began, or nothing, so that all runs read the same."""
        if self._input_start is None:
            return subprocess.DEVNULL
        os.lseek(0, self._input_start, os.SEEK_SET)
        return None

    def execute_and_save(self, selection: Selection, folder: str) -> Outcome:
        """Run again, and save a call of the selection in a folder."""
        return self._execute(selection, [], folder)

    def _execute(self, selection: Selection, located: list[str], save: str) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="hardpoint-") as folder:
            settings_file, outcome_file = Path(folder) / "settings.json", Path(folder) / "outcome.json"
            settings = Settings(str(outcome_file), selection, self.fixed, located, save)
            settings_file.write_text(json.dumps(asdict(settings)))
            module = "hardpoint.debug._bisect.trial"
            command = [sys.executable, "-m", module, str(settings_file), str(self.script), *self.arguments]
            done = subprocess.run(command, stdin=self._input(), capture_output=True, text=True, errors="replace")
            if not outcome_file.exists():  # a crash counts as divergence
                if done.returncode >= 0:
                    raise SearchError(
                        f"a run of {self.script} did not start, or ended by os._exit:\n{done.stderr[-2000:]}"
                    )
                return Outcome(done.returncode, None)
            read = json.loads(outcome_file.read_text())
        outcome = Outcome(metric=find_metric(done.stdout, self.metric), **read)
        if self.metric and outcome.metric is None and outcome.status == 0:
            raise SearchError(f"--metric: '{self.metric}' found nothing in the output of {self.script}")
        return outcome
