"""Train a net under torchrun; with "kill", rank 1 is killed half-way through the first run. Rank 0 saves the weights.

Arguments: folder for checkpoints, file for the final weights, and "kill" or "go".
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from common import DEVICE, MODULE, RANK, SIZE
from models import STEPS, net, train
from torch.nn.parallel import DistributedDataParallel

folder, result, fate = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
MODULE.set_device(DEVICE)
dist.init_process_group(timeout=timedelta(seconds=20))
model = DistributedDataParallel(net("digits"))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
saved, first = folder / "state.pt", 0
if saved.exists():
    state = torch.load(saved, map_location=DEVICE)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    first = state["step"]
for step in range(first, STEPS):
    if fate == "kill" and RANK == 1 and step == STEPS // 2 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    train("digits", model, optimizer.step, parts=SIZE, part=RANK, first=step, last=step + 1)
    if RANK == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        torch.save(state, saved.with_suffix(".new"))
        saved.with_suffix(".new").replace(saved)
    dist.barrier()
print(f"rank {RANK} began at step {first}")
if RANK == 0:
    torch.save({k: v.cpu() for k, v in model.module.state_dict().items()}, result)
dist.destroy_process_group()
