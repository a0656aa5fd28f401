"""torch.distributed on the device: the c10d backend "hardpoint".

What the plug-in has of collectives runs there; the rest goes through the host, where gloo connects the processes.
"""

from __future__ import annotations

import os
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
        gloo = dist.ProcessGroupGloo(dist.PrefixStore("host", store), rank, size, timeout=timeout)
        milliseconds = int(timeout / timedelta(milliseconds=1))
        return adapter.process_group(store, rank, size, milliseconds, gloo, staged_only())

    dist.Backend.register_backend(BACKEND, create, devices=[device])
