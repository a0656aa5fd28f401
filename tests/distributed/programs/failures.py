"""A failure in one rank is reported to the others in time, with its name. The argument selects the failure."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from common import DEVICE, RANK, start

CASE, TIMEOUT = sys.argv[1], 6.0


def attempt() -> None:
    count = torch.ones(4, device=DEVICE)
    if CASE == "shape":
        dist.all_reduce(torch.ones(8 if RANK == 1 else 4, device=DEVICE))
    elif CASE == "dtype":
        dist.all_reduce(count.to(torch.float64 if RANK == 1 else torch.float32))
    elif CASE == "operation":
        dist.all_reduce(count, dist.ReduceOp.MAX if RANK == 1 else dist.ReduceOp.SUM)
    elif CASE == "collective":
        if RANK == 1:
            dist.broadcast(count, 0)
        else:
            dist.all_reduce(count)
    elif CASE == "message":
        other = torch.ones(9, device=DEVICE)
        if RANK == 0:
            dist.send(count, 1)
        elif RANK == 1:
            dist.recv(other, 0)
        elif RANK > 1:
            sys.exit(0)
        count = other
    elif CASE == "missing":
        if RANK == 1:
            time.sleep(TIMEOUT + 2)
            sys.exit(0)
        dist.all_reduce(count)
    elif CASE == "killed":
        if RANK == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(count)
    elif CASE == "abort":
        group = dist.distributed_c10d._get_default_group()
        if RANK == 1:
            time.sleep(TIMEOUT / 2)
            sys.exit(0)
        threading.Timer(1, lambda: group.abort()).start()
        dist.all_reduce(count)
    count.cpu()  # a failure on the device is raised at synchronization


start(timeout=TIMEOUT, bound=CASE == "message")
dist.all_reduce(torch.ones(3, device=DEVICE))
begin = time.monotonic()
try:
    attempt()
    print("no error")
except Exception as error:
    print(f"{type(error).__name__} after {time.monotonic() - begin:.1f} s: {error}")
sys.stdout.flush()
if CASE in ("shape", "dtype", "operation", "collective"):
    time.sleep(1)  # let every rank report the error before one exits
os._exit(0)
