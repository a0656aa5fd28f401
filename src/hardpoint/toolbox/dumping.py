"""Dump: what is called, what serves it, with which arguments and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardpoint.toolbox import options, switches, watching, wording, writing

#: 1: operator and tier; 2: arguments and results as well; 3: with values.
LEVELS = (0, 1, 2, 3)


class Dump(watching.Tool):
    """Write calls from the next operator on: to the terminal, or as JSON lines to ``file``.

    ``level``: 1 for operators and tiers, 2 with arguments and results, 3 with values. ``ops``: only these operators, as
    in rules for fallback.
    """

    def __init__(self, level: int = 1, ops: str = "", file: str | Path | None = None) -> None:
        if level not in LEVELS:
            raise ValueError(f"a dump has the levels 0 to {LEVELS[-1]}, not {level}")
        super().__init__(options.patterns(ops))
        self.level = level
        self._reports = writing.Reports("dump", file if level > 0 else None, _text)
        if level > 0:
            self.start()

    def begin(self, call: watching.Call) -> Any:
        """Arguments as they are before the call."""
        return call.describe(self.level > 2) if self.level > 1 else None

    def end(self, call: watching.Call, state: Any) -> None:
        """Write the call."""
        self._write(call, state, None)

    def fail(self, call: watching.Call, state: Any, message: str) -> None:
        """Write the call, and what it raised."""
        self._write(call, state, message.splitlines()[0] if message else "raised")

    def _write(self, call: watching.Call, arguments: dict[str, Any] | None, error: str | None) -> None:
        record = {**call.head(), "depth": call.depth}
        if call.tier in ("vendor", "portable"):
            record["kernel"] = call.kernel()
        if arguments is not None:
            record["arguments"] = arguments
            record["results"] = call.describe_results(self.level > 2)
        if error is not None:
            record["error"] = error
        self._reports.write(record)

    def stop(self) -> None:
        """End the dump."""
        super().stop()
        self._reports.close()


def _text(record: dict[str, Any]) -> str:
    indent = "  " * record["depth"]
    place = f"  ({record['place']})" if record["place"] else ""
    kernel = f" kernel {record['kernel']}" if record.get("kernel") else ""
    lines = [f"{indent}{record['operator']}: {record['tier']}{kernel}{place}"]
    for group in ("arguments", "results"):
        for name, described in record.get(group, {}).items():
            arrow = "->" if group == "results" else "  "
            lines.append(f"{indent}  {arrow} {name}: {wording.words(described)}")
    if "error" in record:
        lines.append(f"{indent}  raised: {record['error']}")
    return "\n".join(lines)


dump = Dump


def _from_environment(level: str, given: dict[str, str]) -> Dump:
    if not (level or "0").isdigit():
        raise ValueError(f"HARDPOINT_DUMP is a level from 0 to {LEVELS[-1]}, not '{level}'")
    return Dump(int(level or 0), given.get("ops", ""), given.get("file"))


#: ``2``, or ``2; ops=mm; file=calls.jsonl``.
environment = switches.Switch("HARDPOINT_DUMP", ("ops", "file"), _from_environment)
