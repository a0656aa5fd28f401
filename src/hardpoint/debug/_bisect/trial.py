"""One run of the program in a separate process: chosen calls on the device, all others on the CPU.

``python -m hardpoint.debug._bisect.trial SETTINGS SCRIPT [ARGUMENT...]`` reads the settings from a JSON file and writes
the outcome to the file that they name.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardpoint._runtime import core
from hardpoint.debug._calls.base import Call, SavedInputs
from hardpoint.debug._program import Program, end
from hardpoint.debug._saved.files import call_file, create_folder, write_call
from hardpoint.debug._tool.base import Tool
from hardpoint.debug._tool.optimizer_steps import OptimizerSteps
from hardpoint.debug._tool.paths import absolute, shown

#: Paddle's random kernels: their numbers differ between the device and the CPU. torch tags its own.
_RANDOM_PHI = re.compile(
    r"phi::(\w*(uniform|gaussian|normal|randint|randperm|bernoulli|multinomial|dropout|rrelu|poisson|binomial|random)\w*"
    r"|exponential_|standard_gamma|dirichlet|gumbel_softmax)"
)
#: Maximum size in bytes of a saved call's inputs.
MAX_BYTES = 1 << 30


@dataclass
class Selection:
    """Which calls run on the device. None: all."""

    operators: list[str] | None = None
    modules: list[str] | None = None
    last_step: int | None = None


@dataclass
class Settings:
    """Settings of a trial."""

    outcome: str
    selection: Selection
    #: Operators that run on the device in every trial: random ones.
    fixed: list[str] = field(default_factory=list)
    #: Operators whose modules are listed.
    located: list[str] = field(default_factory=list)
    #: Folder in which to save one call of these operators, from the last step of the selection.
    save: str = ""


class _Selector(Tool[SavedInputs]):
    """Switches the rules before each call of the chosen operators, by module and step."""

    def __init__(self, settings: Settings, base: list[tuple[str, list[str]]]) -> None:
        names = settings.located or settings.selection.operators or []
        super().__init__(tuple(map(re.escape, names)))
        self._selection = settings.selection
        self._save = absolute(settings.save) if settings.save else None
        self._base = base
        self._on_cpu = [(re.escape(name), ["vendor", "portable", "decomposition"]) for name in names]
        self._denied: bool | None = None
        self.step = 1
        self.modules: Counter[str] = Counter()
        self.saved = ""
        self._steps = OptimizerSteps(self._advance)
        self._steps.install()
        self.start()

    def _advance(self) -> None:
        self.step += 1

    def begin(self, call: Call) -> SavedInputs | None:
        """Decide where the call runs."""
        self._steps.install()
        self.modules[call.location.module] += 1
        chosen = self._selection
        denied = (chosen.modules is not None and call.location.module not in chosen.modules) or (
            chosen.last_step is not None and self.step > chosen.last_step
        )
        if denied != self._denied:
            core.set_rules([*self._base, *(self._on_cpu if denied else [])])
            self._denied = denied
        if (
            denied
            or call.captured
            or not self._save
            or self.saved
            or (chosen.last_step is not None and self.step != chosen.last_step)
        ):
            return None
        inputs = call.save_inputs(MAX_BYTES, copy=True)
        return None if inputs.reason else inputs

    def end(self, call: Call, state: SavedInputs | None) -> None:
        """Save the call."""
        if state is not None and not self.saved:
            assert self._save is not None
            path = call_file(create_folder("bisect", self._save), call.name, 1)
            report = {"location": str(call.location), "tier": call.tier, "error": ""}
            if write_call("bisect", path, lambda file: state.save(file, report)):
                self.saved = shown(path)


def _rules(settings: Settings) -> list[tuple[str, list[str]]]:
    """Fallback rules for the core: a pattern and the tiers that it denies."""
    chosen = settings.selection.operators
    if chosen is None:
        return []
    denied = ["vendor", "portable", "decomposition"]
    return [(".*", denied), *((re.escape(name), []) for name in (*chosen, *settings.fixed))]


def _is_random(name: str) -> bool:
    if name.startswith("phi::"):
        return _RANDOM_PHI.fullmatch(name) is not None
    torch: Any = sys.modules.get("torch")
    if torch is None or "::" not in name:
        return False
    namespace, _, rest = name.partition("::")
    operator, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace), operator, None), overload or "default", None)
    return found is not None and torch.Tag.nondeterministic_seeded in found.tags


def main(arguments: list[str]) -> None:
    """Run the program and write the outcome."""
    raw = json.loads(Path(arguments[0]).read_text())
    settings = Settings(**{**raw, "selection": Selection(**raw["selection"])})
    program = Program(arguments[1], arguments[2:])
    base = _rules(settings)
    core.set_rules(base)
    chosen = settings.selection
    by_call = bool(settings.located or settings.save) or chosen.modules is not None or chosen.last_step is not None
    selector = None
    if by_call:
        if any(name.startswith("aten::") for name in (*settings.located, *(chosen.operators or ()))):
            import torch  # noqa: F401  (its hooks tell the module of a call, from the first one on)
        selector = _Selector(settings, base)
    status = 1
    try:
        status = program.run()
    finally:
        sys.stdout.flush()
        counters = core.counters()
        if selector is not None:
            selector.stop()
        outcome = {
            "status": status,
            "operators": {
                name: sum(count for tier, count in tiers.items() if tier != "cpu")
                for name, tiers in counters.items()
                if not name.startswith("hardpoint::") and any(tier != "cpu" for tier in tiers)
            },
            "random": sorted(name for name in counters if _is_random(name)),
            "modules": dict(selector.modules) if selector is not None else {},
            "steps": selector.step - 1 if selector is not None else 0,
            "saved": selector.saved if selector is not None else "",
        }
        Path(settings.outcome).write_text(json.dumps(outcome))
    end(status)


if __name__ == "__main__":
    main(sys.argv[1:])
