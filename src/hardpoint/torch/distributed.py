"""The c10d backend "hardpoint" for torch.distributed.

Collectives that the plug-in implements run on the device; the others are staged through the host with gloo.
"""

from __future__ import annotations

import functools
import inspect
import os
import secrets
import sys
import time
from datetime import timedelta
from typing import Any

BACKEND = "hardpoint"


def staged_only() -> bool:
    """Whether HARDPOINT_COLLECTIVES=host disables the plug-in's collectives."""
    chosen = os.environ.get("HARDPOINT_COLLECTIVES", "")
    if chosen not in ("", "plugin", "host"):
        raise ValueError(f"HARDPOINT_COLLECTIVES is '{chosen}', expected 'plugin' or 'host'")
    return chosen == "host"


def register(device: str, adapter: Any) -> None:
    """Register the backend by name, and as the default for the device."""
    import torch.distributed as dist

    if not dist.is_available() or not dist.is_gloo_available():
        return

    def create(store: Any, rank: int, size: int, timeout: timedelta) -> Any:
        store = dist.PrefixStore(rendezvous(store, rank, size, timeout), store)
        # Leave time to find out which ranks are missing.
        gloo_timeout = timeout - min(timeout / 4, timedelta(seconds=2))
        gloo = dist.ProcessGroupGloo(dist.PrefixStore("host", store), rank, size, timeout=gloo_timeout)
        milliseconds = int(timeout / timedelta(milliseconds=1))
        return adapter.process_group(store, rank, size, milliseconds, gloo, staged_only())

    dist.Backend.register_backend(BACKEND, create, devices=[device])
    _set_default_backends(device)
    _split_by_new_groups(device)


def rendezvous(store: Any, rank: int, size: int, timeout: timedelta) -> str:
    """Agree on a unique name for this incarnation of the group.

    torchrun reuses its store when it restarts a job, so keys of an earlier incarnation must not be mistaken for current
    ones. Each rank posts a fresh token. Rank 0 answers every token with the name, and is done when all other ranks have
    confirmed that name, which they can only know from the answer to their current token.
    """
    deadline = time.monotonic() + timeout.total_seconds()

    def late(missing: list[int]) -> TimeoutError:
        ranks = ", ".join(map(str, missing))
        return TimeoutError(
            f"rank {rank}: no response from rank {ranks} within {timeout.total_seconds():g} s while forming a group"
        )

    fresh = secrets.token_hex(8)
    if rank != 0:
        store.set(f"token/{rank}", fresh)
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
            if store.check([f"token/{other}"]):
                store.set(f"answer/{store.get(f'token/{other}').decode()}", fresh)
        absent = [other for other in absent if not store.check([f"{fresh}/here/{other}"])]
        if absent and time.monotonic() > deadline:
            raise late(absent)
        time.sleep(0.005 if absent else 0)
    return fresh


def _set_default_backends(device: str) -> None:
    """Make this backend the default of groups that use the device.

    Without a named backend, torch assumes gloo as the default even if the group lacks it, and DDP fails. Among several
    backends it misses this one because it compares an upper-case name with a lower-case one.
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


def _split_by_new_groups(device: str) -> None:
    """Let ``split_group`` make new groups: there is no communicator to split.

    Device meshes of several dimensions split the default group if it was created with a ``device_id``.
    """
    from torch.distributed import device_mesh
    from torch.distributed import distributed_c10d as c10d

    split = getattr(c10d, "split_group", None)
    if split is None:
        return
    parameters = inspect.signature(split)

    @functools.wraps(split)
    def split_group(*arguments: Any, **options: Any) -> Any:
        given = parameters.bind(*arguments, **options).arguments
        parent = given.pop("parent_pg", None) or c10d._get_default_group()
        parts = given.pop("split_ranks", None)
        if f"{device}:{BACKEND}" not in str(c10d._world.pg_backend_config.get(parent)) or not parts:
            return split(*arguments, **options)
        members = c10d.get_process_group_ranks(parent)
        for part in parts:
            ranks = [members[rank] for rank in sorted(part)]
            if c10d.get_rank() in ranks:
                backend = given.pop("backend", None) or str(c10d._world.pg_map[parent][0])
                return c10d.new_group(ranks, backend=backend, use_local_synchronization=True, **given)
        return None

    modules: tuple[Any, ...] = (c10d, device_mesh, sys.modules["torch.distributed"])
    for module in modules:
        if getattr(module, "split_group", None) is split:
            module.split_group = split_group
