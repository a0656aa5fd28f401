"""Bisect: finds the operator, module and step that make a run diverge from the CPU, by running halves on the CPU.

For errors that no single call shows: every call is within its tolerance, and the loss still drifts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hardpoint.debug._bisect.history import History, Outcome, SearchError, diverges
from hardpoint.debug._bisect.minimize import minimal_subset, smallest_prefix
from hardpoint.debug._bisect.trial import Selection

__all__ = ["Bisect", "Culprit", "SearchError"]

#: A run diverges if its metric differs by more than this, relatively.
TOLERANCE = 0.01


@dataclass
class Culprit:
    """The cause of the divergence."""

    #: The smallest set of operators. Empty: the run does not diverge.
    operators: list[str] = field(default_factory=list)
    #: Paths of the modules; empty if the modules make no difference.
    modules: list[str] = field(default_factory=list)
    #: The run diverges if the steps up to this one run on the device; 0 if the program takes no steps.
    step: int = 0
    #: The file of a wrong call, for ``hardpoint replay``.
    saved: str = ""


class Bisect:
    """Searches a program. ``say`` prints one line of progress."""

    def __init__(
        self,
        script: Path,
        arguments: list[str],
        *,
        metric: str = "",
        tolerance: float = TOLERANCE,
        state: Path | None = None,
        restart: bool = False,
        save: Path | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.tolerance = tolerance
        self.save = save or Path(f"{script.stem}.calls")
        self._say = say
        self.history = History(script, arguments, metric, state or Path(f"{script.stem}.bisect.json"), restart, say)
        self.reference = Outcome(0, None)
        self.all_on_device = Outcome(0, None)

    def search(self) -> Culprit:
        """Run the trials. Raises :class:`SearchError` if the program cannot be searched."""
        culprit = self._search()
        self.history.finish()
        return culprit

    def _search(self) -> Culprit:
        self.all_on_device = self._run(Selection(), "all on the device")
        self.history.fixed = self.all_on_device.random
        self.reference = self._run(Selection(operators=[]), "all on the CPU")
        if self.reference.status != 0 and self.all_on_device.status == self.reference.status:
            raise SearchError(f"the program also ends with status {self.reference.status} on the CPU")
        if not self._diverges(self.all_on_device):
            return Culprit()
        if self.all_on_device.random:
            self._say(f"random operators stay on the device: {', '.join(self.all_on_device.random)}")
        candidates = [
            name
            for name, _ in sorted(self.all_on_device.operators.items(), key=lambda entry: (-entry[1], entry[0]))
            if name not in self.history.fixed
        ]
        if not candidates:
            raise SearchError("the run diverges, but no operator other than random ones ran on the device")
        self._say(f"searching {len(candidates)} operators")
        operators = minimal_subset(candidates, lambda some: self._fails(Selection(some), _list(some)))
        culprit = Culprit(sorted(operators))
        located = self._run(Selection(culprit.operators), f"modules of {_list(operators)}", located=culprit.operators)
        if not self._diverges(located):
            raise SearchError(f"a second run with {_list(operators)} on the device agrees: seed the program")
        self._find_modules(culprit, located)
        self._find_step(culprit, located.steps)
        self._save_call(culprit)
        return culprit

    def _find_modules(self, culprit: Culprit, located: Outcome) -> None:
        modules = sorted(located.modules)
        if len(modules) < 2:
            culprit.modules = [module for module in modules if module]
            return
        self._say(f"searching {len(modules)} modules")
        culprit.modules = minimal_subset(
            modules,
            lambda some: self._fails(
                Selection(culprit.operators, some), f"in {_list([m or 'no module' for m in some])}"
            ),
        )

    def _find_step(self, culprit: Culprit, steps: int) -> None:
        modules = culprit.modules or None
        if steps < 1:
            return
        if steps == 1 or not self._fails(Selection(culprit.operators, modules, steps), f"steps 1 to {steps}"):
            culprit.step = steps
            return
        self._say(f"searching {steps} steps")
        culprit.step = smallest_prefix(
            steps, lambda last: self._fails(Selection(culprit.operators, modules, last), f"steps 1 to {last}")
        )

    def _save_call(self, culprit: Culprit) -> None:
        selection = Selection(culprit.operators, culprit.modules or None, culprit.step or None)
        # Not saved: the file may have been deleted since.
        culprit.saved = self.history.execute_and_save(selection, str(self.save)).saved

    def _run(self, selection: Selection, label: str, located: list[str] | None = None) -> Outcome:
        outcome, known = self.history.run(selection, located=located)
        verdict = ""
        if selection.operators is not None and selection.operators:
            verdict = "  diverges" if self._diverges(outcome) else "  agrees"
        again = "  (known)" if known else ""
        self._say(f"{self.history.number:3d}  {outcome.show():>14}{verdict}  {label}{again}")
        return outcome

    def _diverges(self, outcome: Outcome) -> bool:
        return diverges(outcome, self.reference, self.tolerance)

    def _fails(self, selection: Selection, label: str) -> bool:
        return self._diverges(self._run(selection, label))


def _list(names: list[str], limit: int = 3) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
