"""Worker process that runs entries, so that a crash fails one entry only.

It reads requests and writes responses, one JSON object per line. ``{"list": mode}`` returns the entries;
``{"mode": ..., "entry": ...}`` returns ``{"at": ...}`` before each step and ``{"result": ...}`` at the end. Before a
long import, a worker sends ``{"loading": ...}``; one that cannot list its entries returns ``{"error": ...}``.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import importlib
import json
import os
import re
import resource
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Any
from unittest import mock

from hardpoint.check import guard
from hardpoint.check.report import Result, Step

MODES = ("abi", "runtime", "ops", "modules", "optim", "perf")


def mount() -> str:
    """Mount the chosen device on torch and return its name."""
    import hardpoint.torch

    return hardpoint.torch.mount()


def entries(mode: str, pattern: str) -> list[str]:
    """Names of the entries of a mode that match a regular expression."""
    match = re.compile(pattern).search if pattern else lambda name: True
    found: list[str] = importlib.import_module(f"hardpoint.check.{mode}").names(lambda name: bool(match(name)))
    return found


def run(mode: str, entry: str, options: dict[str, Any], step: Step) -> Result:
    """Run one entry in this process."""
    start = time.monotonic()
    with warnings.catch_warnings(), no_seeding_of_other_devices():
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(f"hardpoint.check.{mode}")
            device = mount()
            # Mode ops checks the zones after each call.
            with guard.zones(bool(options.get("guard")) and mode in ("modules", "optim")) as damage:
                result: Result = module.run(entry, device, options, step)
                if problem := damage():
                    result.verdict, result.failure = "failed", result.failure or problem
        except Exception as error:
            # Device errors are recorded by the entry; this is a bug in the check or in torch.
            result = Result(mode, entry, "failed", failure=f"the check itself failed: {type(error).__name__}: {error}")
    result.seconds = round(time.monotonic() - start, 3)
    result.failure = result.failure[:1500]
    gc.collect()
    return result


@contextmanager
def no_seeding_of_other_devices() -> Iterator[None]:
    """Stop torch.manual_seed from queuing seeds, each with a traceback, for uninitialized devices.

    That would take most of a run, since every sample sets a seed.
    """
    import torch

    with ExitStack() as stack:
        for name in ("cuda", "xpu", "mtia"):
            module: Any = getattr(torch, name, None)
            if hasattr(module, "manual_seed_all") and not module.is_initialized():
                stack.enter_context(mock.patch.object(module, "manual_seed_all"))
        yield


def limit_memory(gigabytes: float) -> None:
    """Limit what this process may map from now on; address space reserved by the device does not count."""
    with open("/proc/self/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    limit = mapped + int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def end_with_parent() -> None:
    """Make the kernel end this process with its parent, since the terminal's signals do not reach it."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def main() -> None:
    """Serve requests until stdin closes."""
    faulthandler.enable()
    # Responses go to the original stdout; anything printed goes to stderr.
    responses = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    limited = False
    loaded: set[str] = set()
    end_with_parent()

    def respond(**message: Any) -> None:
        responses.write(json.dumps(message) + "\n")

    for line in sys.stdin:
        request = json.loads(line)
        mode = request.get("list") or request["mode"]
        if not limited:
            import torch

            device = mount()
            torch.set_num_threads(1)
            respond(at="first use of the device")
            # Make the device reserve its address space now.
            for index in range(torch.accelerator.device_count()):
                torch.ones(1, device=f"{device}:{index}").cpu().pin_memory()
            if request["memory"]:
                limit_memory(request["memory"])
            limited = True
        if mode not in loaded:
            respond(loading=f"the entries of {mode}")
            try:
                entries(mode, "")
            except Exception as error:
                respond(error=f"mode {mode}: {type(error).__name__}: {error}")
                continue
            loaded.add(mode)
            # Exclude the databases from later collections.
            gc.collect()
            gc.freeze()
        if "list" in request:
            respond(entries=entries(mode, request["pattern"]))
            continue
        respond(at="the start")
        result = run(mode, request["entry"], request["options"], lambda at: respond(at=at))
        respond(result=asdict(result))


if __name__ == "__main__":
    main()
