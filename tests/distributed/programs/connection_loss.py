"""Run collectives until one fails because the hosts lost their connection. Prints the error."""

from __future__ import annotations

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from common import DEVICE, MODULE, RANK

MODULE.set_device(DEVICE)
dist.init_process_group(timeout=timedelta(seconds=float(sys.argv[1])))
counts, last = torch.ones(1000, device=DEVICE), time.monotonic()
try:
    while True:
        last = time.monotonic()
        dist.all_reduce(counts, dist.ReduceOp.MAX)
        counts.cpu()
        print("ready", flush=True)
        time.sleep(0.1)
except Exception as error:
    print(f"rank {RANK}: {type(error).__name__} after {time.monotonic() - last:.1f} s: {error}", flush=True)
