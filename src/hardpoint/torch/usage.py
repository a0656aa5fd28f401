"""Warns about a program that mounts a device but runs on the CPU, as it does if a library does not know the device."""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from typing import Any

#: One operator call in this many is sampled. ``hardpoint doctor --program`` sets 1 before torch is imported.
sample_period = 256
#: Fewer CPU operators than this prove nothing: the program may only load data.
JUDGED_OPERATORS = 5000
#: Minimum share of operators on a device that is in use.
LEAST_SHARE = 0.01


@dataclass(frozen=True)
class OperatorUse:
    """Operators that a program ran.

    Attributes:
        device: Calls on the device, all tiers.
        cpu: Calls on CPU tensors; an estimate, unless the sample period is 1.
    """

    device: int
    cpu: int

    @property
    def unused(self) -> bool:
        """Whether the program computes, but not on the device."""
        return self.cpu >= JUDGED_OPERATORS and self.device < LEAST_SHARE * (self.device + self.cpu)


def start(name: str, adapter: Any) -> None:
    """Start sampling, and check the result when the process ends, unless ``HARDPOINT_USAGE_WARNING=0``."""
    if os.environ.get("HARDPOINT_USAGE_WARNING") == "0":
        return
    adapter.start_usage_sample(sample_period)
    atexit.register(_warn, name, os.getpid())


def operator_use() -> OperatorUse:
    """The operators that have run in this process."""
    from hardpoint import _runtime
    from hardpoint.torch import _adapter

    device, cpu = _adapter.load().operator_use()
    counted = sum(sum(tiers.values()) for tiers in _runtime.counters().values())
    return OperatorUse(counted or device, cpu)  # a program may reset the counters


def _warn(name: str, process: int) -> None:
    if os.getpid() != process or sample_period == 1:  # a forked child, or the doctor, which prints its own report
        return
    use = operator_use()
    if use.unused:
        print(f"hardpoint: {message(name, use, sys.argv[0])}", file=sys.stderr)


def message(name: str, use: OperatorUse, program: str) -> str:
    """One line about an unused device."""
    from hardpoint import integrations

    about = "" if sample_period == 1 else "about "
    counts = f"{about}{use.cpu:,} operators ran on the CPU and {use.device:,} on the device"
    text = f"the device '{name}' is mounted, but {counts}"
    for library in integrations.state.refused:
        text += f"; {library} was not told about the device"
    if os.path.isfile(program) and sample_period != 1:
        text += f". `hardpoint doctor --program {program}` shows which library chose the CPU"
    return text
