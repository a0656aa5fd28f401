"""torch.distributed on the device: the c10d backend "hardpoint".

What the plug-in has of collectives runs there; the rest goes through the host, where gloo connects the processes.
"""

from __future__ import annotations

import functools
import os
import secrets
import time
from datetime import timedelta
from typing import Any

BACKEND = "hardpoint"


def staged_only() -> bool:
    """Whether HARDPOINT_COLLECTIVES=host asks to leave the plug-in's own collectives alone."""
    chosen = os.environ.get("HARDPOINT_COLLECTIVES", "")
    if chosen not in ("", "plugin", "host"):
        raise ValueError(f"HARDPOINT_COLLECTIVES is '{chosen}': 'plugin' (where it has them) or 'host' is possible")
    return chosen == "host"


def register(device: str, adapter: Any) -> None:
    """Make the backend known: by its name, and as the one for the device's tensors."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return

    def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        store = dist.PrefixStore(meet(store, rank, size, timeout), store)
        # What is left is for finding out who did not come.
        waits = timeout - min(timeout / 4, timedelta(seconds=2))
        gloo = dist.ProcessGroupGloo(dist.PrefixStore("host", store), rank, size, timeout=waits)
        milliseconds = int(timeout / timedelta(milliseconds=1))
        return adapter.process_group(store, rank, size, milliseconds, gloo, staged_only())

    dist.Backend.register_backend(BACKEND, create, devices=[device])
    _set_default_backends(device)


def meet(store: Any, rank: int, size: int, timeout: timedelta) -> str:
    """A name for this life of the group, the same in every process of it.

    torchrun keeps its store when it starts a job again: what the processes of the earlier life left there must not be
    taken for word of the present ones. Rank 0 answers every greeting that it finds, and is done when each of the others
    has repeated the name that only its present greeting can have brought.
    """
    deadline = time.monotonic() + timeout.total_seconds()

    def late(missing: list[int]) -> TimeoutError:
        ranks = ", ".join(map(str, missing))
        return TimeoutError(
            f"rank {rank}: no word from rank {ranks} within {timeout.total_seconds():g} s, to form a group"
        )

    fresh = secrets.token_hex(8)
    if rank != 0:
        store.set(f"greeting/{rank}", fresh)
        while not store.check([f"answer/{fresh}"]):
            if time.monotonic() > deadline:
                raise late([0])
            time.sleep(0.005)
        name: str = store.get(f"answer/{fresh}").decode()
        store.set(f"{name}/here/{rank}", "")
        return name
    absent = list(range(1, size))
    while absent:
        for other in absent:
            if store.check([f"greeting/{other}"]):
                store.set(f"answer/{store.get(f'greeting/{other}').decode()}", fresh)
        absent = [other for other in absent if not store.check([f"{fresh}/here/{other}"])]
        if absent and time.monotonic() > deadline:
            raise late(absent)
        time.sleep(0.005 if absent else 0)
    return fresh


def _set_default_backends(device: str) -> None:
    """Let groups know that this backend is the default among theirs.

    torch takes gloo for the default where no backend is named, whether the group has it or not, and then DDP fails; and
    of several it does not find ours, because it compares the upper-case name with the lower-case one.
    """
    import torch
    from torch.distributed import distributed_c10d as c10d

    make = c10d._new_process_group_helper

    @functools.wraps(make)
    def with_default(*arguments: Any, **options: Any) -> Any:
        group, store = make(*arguments, **options)
        if isinstance(group, c10d.ProcessGroup) and torch.device(device) in group._device_types:
            group._set_default_backend(c10d.ProcessGroup.BackendType.CUSTOM)
        return group, store

    c10d._new_process_group_helper = with_default
