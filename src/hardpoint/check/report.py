"""Results of a conformance run: verdicts, evidence, and the operators that prevent a strict verdict."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hardpoint import Tier

#: From best to worst. ``strict``: correct, with nothing on the CPU. ``correct``: correct, with CPU fallbacks.
#: ``passed``: success in the modes without tiers (abi, runtime, perf).
VERDICTS = ("strict", "passed", "correct", "partly", "failed", "crashed", "not tested")
BAD = ("partly", "failed", "crashed")

#: Called with a label before each step of an entry.
Step = Callable[[str], None]
#: Operator -> dtype -> tier -> calls.
Tiers = dict[str, dict[str, dict[str, int]]]


@dataclass
class Count:
    """Number of comparisons in one dtype."""

    passed: int = 0
    failed: int = 0
    #: Samples that the CPU rejects too.
    skipped: int = 0
    #: Whether the CPU tier was used.
    cpu: bool = False


@dataclass
class Result:
    """One entry's verdict with its evidence."""

    mode: str
    entry: str
    verdict: str = "not tested"
    #: Reason for not testing, finding of a check, or measured ratio.
    detail: str = ""
    dtypes: dict[str, Count] = field(default_factory=dict)
    #: The first failure's message, and the file of its call for ``hardpoint replay``.
    failure: str = ""
    saved: str = ""
    tiers: Tiers = field(default_factory=dict)
    #: Comparison with the saved results of another run: number of matching calls, and differences by call.
    matching: int = 0
    differing: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the entry in a run."""
        return self.mode, self.entry

    def cpu_operators(self) -> list[str]:
        """Operators that fell back to the CPU in any dtype."""
        return sorted(op for op, dtypes in self.tiers.items() if any("cpu" in tiers for tiers in dtypes.values()))

    def count(self, dtype: str) -> Count:
        """Counts of a dtype; created on first use."""
        return self.dtypes.setdefault(dtype, Count())

    def add_counters(self, dtype: str, counters: Mapping[str, Mapping[Tier, int]]) -> None:
        """Add ``hardpoint.counters()`` of calls with this dtype."""
        for op, tiers in counters.items():
            into = self.tiers.setdefault(op, {}).setdefault(dtype, {})
            for tier, calls in tiers.items():
                into[tier] = into.get(tier, 0) + calls
                if tier == "cpu":
                    self.count(dtype).cpu = True

    def record(self, dtype: str, label: str, problem: str) -> None:
        """Count a comparison; an empty ``problem`` means that it passed."""
        if problem:
            self.count(dtype).failed += 1
            self.failure = self.failure or f"{label}: {problem}"
        else:
            self.count(dtype).passed += 1

    def set_verdict(self) -> Result:
        """Derive the verdict from the counts."""
        passed = sum(c.passed for c in self.dtypes.values())
        failed = sum(c.failed for c in self.dtypes.values())
        if not passed and not failed:
            self.verdict, self.detail = "not tested", self.detail or "no sample ran on the CPU"
        elif failed:
            self.verdict = "partly" if passed else "failed"
        else:
            self.verdict = "correct" if any(c.cpu for c in self.dtypes.values()) else "strict"
        return self

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Load a result written by ``asdict``."""
        dtypes = {name: Count(**count) for name, count in data.get("dtypes", {}).items()}
        return cls(**{**data, "dtypes": dtypes})


@dataclass(frozen=True)
class Blocker:
    """A base operator that fell back to the CPU, and the effect of serving it on the device."""

    operator: str
    #: Entries that become strict if only this operator is served.
    alone: int
    #: The same without complex dtypes.
    alone_real: int
    #: Entries that it blocks, alone or together with others.
    entries: int
    overloads: tuple[str, ...]
    #: Dtype -> entries in which it fell back.
    dtypes: dict[str, int]
    examples: tuple[str, ...]


def base_name(operator: str) -> str:
    """Operator name without overload and in-place suffix: ``aten::add_.Tensor`` -> ``add``."""
    base = operator.removeprefix("aten::").split(".")[0]
    return base[:-1] if base.endswith("_") and not base.endswith("__") else base


@dataclass
class Report:
    """A whole run."""

    device: str
    results: list[Result]
    versions: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    #: When the run started, in ISO format.
    date: str = ""
    #: Number of entries that an interrupted run did not reach.
    interrupted: int = 0

    def of(self, mode: str) -> list[Result]:
        """The results of one mode."""
        return [r for r in self.results if r.mode == mode]

    def modes(self) -> list[str]:
        """The modes that were run, in order."""
        return list(dict.fromkeys(r.mode for r in self.results))

    def verdicts(self, mode: str) -> dict[str, int]:
        """Number of entries per verdict in a mode."""
        counts = Counter(r.verdict for r in self.of(mode))
        return {v: counts[v] for v in VERDICTS if counts[v]}

    def ok(self, strict: bool = False) -> bool:
        """Whether nothing failed; with ``strict``, also nothing fell back to the CPU."""
        bad = (*BAD, "correct") if strict else BAD
        return not any(r.verdict in bad for r in self.results)

    def percentages(self, mode: str) -> tuple[int, float, float]:
        """Number of entries tested, percentage correct in any tier, percentage strict."""
        tested = [r for r in self.of(mode) if r.verdict != "not tested"]
        right = sum(r.verdict in ("strict", "passed", "correct") for r in tested)
        strict = sum(r.verdict in ("strict", "passed") for r in tested)
        whole = max(len(tested), 1)
        return len(tested), 100 * right / whole, 100 * strict / whole

    def by_dtype(self, mode: str) -> dict[str, tuple[int, int, int]]:
        """Dtype -> entries tested, correct, and strict."""
        table: dict[str, tuple[int, int, int]] = {}
        for result in self.of(mode):
            for dtype, count in result.dtypes.items():
                if count.passed or count.failed:
                    tested, right, strict = table.get(dtype, (0, 0, 0))
                    good = not count.failed
                    table[dtype] = (tested + 1, right + good, strict + (good and not count.cpu))
        return table

    def blockers(self, modes: Iterable[str] | None = None) -> list[Blocker]:
        """Operators that fell back to the CPU, those with the largest effect first."""
        modes = self.modes() if modes is None else list(modes)
        alone, alone_real = self._alone(modes), self.without_complex()._alone(modes)
        entries: dict[str, list[str]] = {}
        overloads: dict[str, set[str]] = {}
        dtypes: dict[str, Counter[str]] = {}
        for result in (r for r in self.results if r.mode in modes):
            fell: dict[str, set[str]] = {}
            for op in result.cpu_operators():
                overloads.setdefault(base_name(op), set()).add(op.removeprefix("aten::"))
                on_cpu = [d for d, tiers in result.tiers[op].items() if "cpu" in tiers]
                fell.setdefault(base_name(op), set()).update(on_cpu)
            for base, where in fell.items():
                entries.setdefault(base, []).append(result.entry)
                dtypes.setdefault(base, Counter()).update(sorted(where))
        found = []
        for base, names in entries.items():
            counts, by_dtype = (alone[base], alone_real[base], len(names)), dict(dtypes[base].most_common())
            found.append(Blocker(base, *counts, tuple(sorted(overloads[base])), by_dtype, tuple(names[:4])))
        return sorted(found, key=lambda b: (-b.alone, -b.alone_real, -b.entries, b.operator))

    def _alone(self, modes: Iterable[str]) -> Counter[str]:
        """Operator -> entries blocked by it alone."""
        alone: Counter[str] = Counter()
        for result in self.results:
            bases = {base_name(op) for op in result.cpu_operators()}
            if len(bases) == 1 and result.verdict == "correct" and result.mode in modes:
                alone.update(bases)
        return alone

    def without_complex(self) -> Report:
        """The same run without its complex dtypes."""
        results = []
        for r in self.results:
            dtypes = {d: c for d, c in r.dtypes.items() if "complex" not in d}
            tiers = {op: {d: t for d, t in by.items() if "complex" not in d} for op, by in r.tiers.items()}
            real = replace(r, dtypes=dtypes, tiers={op: by for op, by in tiers.items() if by})
            if dtypes and r.verdict in ("strict", "correct", "partly", "failed"):
                results.append(real.set_verdict())
            elif dtypes or r.verdict in ("passed", "crashed", "not tested"):
                results.append(real)
        return replace(self, results=results)

    def order_of_work(self, steps: int = 40, modes: Iterable[str] | None = None) -> list[tuple[str, int]]:
        """Order in which to implement operators, each with the total number of strict entries after it.

        Greedy: the next operator unblocks most entries; ties go to the one that blocks entries together with the fewest
        others.
        """
        modes = self.modes() if modes is None else list(modes)
        waiting: list[set[str]] = []
        done = 0
        for result in self.results:
            if result.mode in modes and result.verdict in ("strict", "correct"):
                bases = {base_name(op) for op in result.cpu_operators()}
                done += not bases
                if bases:
                    waiting.append(bases)
        order: list[tuple[str, int]] = []
        while waiting and len(order) < steps:
            gain: Counter[str] = Counter()
            share: dict[str, float] = {}
            for bases in waiting:
                for base in bases:
                    gain[base] += len(bases) == 1
                    share[base] = share.get(base, 0.0) + 1 / len(bases) ** 2
            best = max(share, key=lambda base: (gain[base], share[base], base))
            for bases in waiting:
                bases.discard(best)
            done += sum(not bases for bases in waiting)
            waiting = [bases for bases in waiting if bases]
            order.append((best, done))
        return order

    def to_json(self) -> dict[str, Any]:
        """All results, and the summary of the text report."""
        summary = {
            mode: {**self._summary(mode), "blockers": [asdict(b) for b in self.blockers([mode])]}
            for mode in self.modes()
        }
        real = self.without_complex()
        return {
            **asdict(self),
            "summary": summary,
            "summary_real": {mode: real._summary(mode) for mode in real.modes()},
        }

    def _summary(self, mode: str) -> dict[str, Any]:
        tested, right, strict = self.percentages(mode)
        return {
            "verdicts": self.verdicts(mode),
            "tested": tested,
            "correct_percent": right,
            "strict_percent": strict,
            "dtypes": self.by_dtype(mode),
            "order_of_work": self.order_of_work(modes=[mode]),
        }

    def save(self, path: str | Path) -> None:
        """Write the JSON report."""
        Path(path).write_text(json.dumps(self.to_json(), indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Report:
        """Load a report written by :meth:`save`. Raises ``ValueError`` for another file."""
        try:
            data = json.loads(Path(path).read_text())
            data.pop("summary", None)
            data.pop("summary_real", None)
            return cls(**{**data, "results": [Result.from_json(r) for r in data["results"]]})
        except OSError as error:
            raise ValueError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"{path} is not a report of `hardpoint check --json`") from None
