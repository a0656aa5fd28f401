"""Setup of every program: a process group with one device per rank."""

from __future__ import annotations

import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

import hardpoint.torch

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
NAME = hardpoint.torch.mount()
MODULE = torch.get_device_module(NAME)
DEVICE = torch.device(NAME, RANK % MODULE.device_count())


def start(backend: str = f"cpu:gloo,{NAME}:hardpoint", timeout: float = 60, bound: bool = False) -> None:
    """With `bound`, the group knows its device, so that sends and receives use the plug-in too."""
    MODULE.set_device(DEVICE)
    dist.init_process_group(
        backend,
        init_method=f"file://{os.environ['TEST_STORE']}",
        rank=RANK,
        world_size=SIZE,
        timeout=timedelta(seconds=timeout),
        device_id=DEVICE if bound else None,
    )


def end() -> None:
    dist.destroy_process_group()
    print("done")
    sys.stdout.flush()
