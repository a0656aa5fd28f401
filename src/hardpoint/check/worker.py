"""The process that runs entries: a crash in one costs that entry only.

It reads requests and writes answers, one JSON object a line: ``{"list": mode}`` gives the entries, ``{"mode": ...,
"entry": ...}`` gives ``{"at": ...}`` before each step, and ``{"result": ...}`` at the end.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import re
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any
from unittest import mock

from hardpoint.check.report import Result

MODES = ("abi", "runtime", "ops", "modules", "optim", "perf")


def mount() -> str:
    """Mount the chosen device on torch and return its name."""
    import hardpoint.torch

    return hardpoint.torch.mount()


def entries(mode: str, pattern: str) -> list[str]:
    """The names of a mode's entries that match a regular expression."""
    match = re.compile(pattern).search if pattern else lambda name: True
    found: list[str] = importlib.import_module(f"hardpoint.check.{mode}").names(lambda name: bool(match(name)))
    return found


def run(mode: str, entry: str, options: dict[str, Any], step: Callable[[str], None]) -> Result:
    """Run one entry in this process."""
    start = time.monotonic()
    with warnings.catch_warnings(), seeds_of_other_devices_left_alone():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(f"hardpoint.check.{mode}")
            result: Result = module.run(entry, mount(), options, step)
        except Exception as error:
            # An entry records what the device does wrong itself; this is the check's own mistake, or torch's.
            result = Result(mode, entry, "failed", failure=f"the check itself failed: {type(error).__name__}: {error}")
    result.seconds = round(time.monotonic() - start, 3)
    result.failure = result.failure[:1500]
    gc.collect()
    return result


@contextmanager
def seeds_of_other_devices_left_alone() -> Iterator[None]:
    """Samples are made from fresh seeds, and each seed would be queued for devices that nobody uses, with a traceback.

    That would take most of a run's time.
    """
    import torch

    with ExitStack() as stack:
        for name in ("cuda", "xpu", "mtia"):
            module: Any = getattr(torch, name, None)
            if hasattr(module, "manual_seed_all") and not module.is_initialized():
                stack.enter_context(mock.patch.object(module, "manual_seed_all"))
        yield


def _limit_memory(gigabytes: float) -> None:
    """Limit what this process may map beyond now: a device's reserved address space does not count."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limit = mapped + int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main() -> None:
    """Serve requests until the input ends."""
    faulthandler.enable()
    # Answers go to the file that stdout was; what anybody prints goes where errors go.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    limited = False

    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")

    for line in sys.stdin:
        request = json.loads(line)
        if not limited:
            import torch

            device = mount()
            torch.set_num_threads(1)
            # Whatever address space the device reserves, it does so now.
            for index in range(torch.accelerator.device_count()):
                torch.ones(1, device=f"{device}:{index}").cpu().pin_memory()
            if request["memory"]:
                _limit_memory(request["memory"])
            limited = True
        if "list" in request:
            answer(entries=entries(request["list"], request["pattern"]))
            # The databases stay: later collections need not look at them.
            gc.collect()
            gc.freeze()
            continue
        result = run(request["mode"], request["entry"], request["options"], lambda at: answer(at=at))
        answer(result=asdict(result))


if __name__ == "__main__":
    main()
