"""Train a net with one device per process: torchrun --nproc-per-node=2 examples/distributed_training.py"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import hardpoint  # noqa: F401  (mounts a device)

device = torch.device("sim", int(os.environ["LOCAL_RANK"]) % torch.sim.device_count())
torch.sim.set_device(device)
dist.init_process_group(device_id=device)
rank, size = dist.get_rank(), dist.get_world_size()

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1)).to(device)
model = DistributedDataParallel(net)
update = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(64, 8).to(device)[rank::size]  # this rank's shard of the batch
wanted = inputs.square().mean(1, keepdim=True)
losses = []
for _ in range(30):
    update.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()  # overlaps the gradient all-reduce with computation
    update.step()
    losses.append(loss.detach())
mean = torch.stack([losses[0], losses[-1]])
dist.all_reduce(mean, dist.ReduceOp.AVG)
if rank == 0:
    print(f"{size} processes: {mean[0].item():.3f} -> {mean[1].item():.3f}")
    assert mean[1] < mean[0] / 2
dist.destroy_process_group()
