"""Inputs of a call of Paddle's as they were before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hardpoint.toolbox import phi_calls, phi_replaying
from hardpoint.toolbox.phi_calls import PhiCall, Saved


class PhiKept:
    """Make it before the call. Without ``copy``, only inputs that the call writes are copied."""

    def __init__(self, call: PhiCall, max_bytes: int, copy: bool) -> None:
        self.call = call
        self.reason = ""
        self.complete = True
        self.outputs: list[Any] = call.shown.outputs()
        self._bytes = sum(phi_calls.bytes_of(seen) for seen in phi_calls.tensors(call.inputs) if seen.has_memory)
        if self._bytes > max_bytes:
            self.reason, self.complete = "beyond max_bytes", False
        written = {seen.data_ptr for seen in phi_calls.tensors(self.outputs) if seen.has_memory}

        def keep(value: Any) -> Any:
            if isinstance(value, list):
                return [keep(each) for each in value]
            if value is None or self.reason or not (copy or value.data_ptr in written):
                return value
            return Saved.of(value)

        self._inputs = [keep(each) for each in call.inputs]

    def bytes(self) -> int:
        """What a file of them takes."""
        return self._bytes

    def named(self) -> dict[str, Any]:
        """By position; numbers among the attributes as well."""
        numbers = {f"attribute {i}": a for i, a in enumerate(self.call.attributes) if isinstance(a, float)}
        return {**phi_calls.named("input", self._inputs), **numbers}

    def save(self, path: Path, report: dict[str, Any]) -> Path:
        """Write the call with them to a file."""

        def saved(value: Any) -> Any:
            if isinstance(value, list):
                return [saved(each) for each in value]
            return value if value is None or isinstance(value, Saved) else Saved.of(value)

        return phi_replaying.save(path, self.call, [saved(each) for each in self._inputs], self.outputs, report)
