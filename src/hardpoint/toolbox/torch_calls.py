"""Calls of torch."""

from __future__ import annotations

from typing import Any

from hardpoint.toolbox import describing, watching


class TorchCall(watching.Call):
    """A call of an ATen overload."""

    def describe(self, values: bool) -> dict[str, Any]:
        """Arguments by the names of the schema."""
        return _described(describing.argument_names(self.name), self.arguments, values)

    def describe_results(self, values: bool) -> dict[str, Any]:
        """Results by the names of the schema."""
        return _described(describing.result_names(self.name), self.results, values)

    def kernel(self) -> str:
        """By the operator tables."""
        return describing.kernel(self.name)

    def trial(self, max_bytes: int) -> watching.Trial:
        """Save the inputs."""
        from hardpoint.toolbox.trials import Trial

        return Trial.begin(self, max_bytes)


def _described(names: list[str], given: list[Any], values: bool) -> dict[str, Any]:
    return {name: describing.value(each, values) for name, each in zip(names, given, strict=False)}
