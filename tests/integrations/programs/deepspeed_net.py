"""Trains a small net with DeepSpeed's ZeRO and saves its weights: deepspeed_net.py FILE STAGE."""

import sys

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator
from torch import nn

BATCH = 16

file, stage = sys.argv[1], int(sys.argv[2])
deepspeed.init_distributed()
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
config = {
    "train_batch_size": BATCH,
    "zero_optimization": {"stage": stage},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2, "weight_decay": 0.01}},
}
engine, *_ = deepspeed.initialize(model=net, config=config)
x = torch.randn(4, BATCH, 8, generator=torch.Generator().manual_seed(1))
losses = []
for batch in x:
    inputs = batch[rank::ranks].to(engine.device)
    loss = nn.functional.mse_loss(engine(inputs), inputs[:, :4].sin())
    engine.backward(loss)
    engine.step()
    losses.append(loss.detach())
mean = torch.stack(losses)
dist.all_reduce(mean, dist.ReduceOp.AVG)
devices = [None] * ranks
dist.all_gather_object(devices, str(next(engine.module.parameters()).device))
if rank == 0:
    name = get_accelerator().device_name()
    torch.save({"accelerator": name, "devices": devices, "losses": mean.cpu()}, file)
dist.destroy_process_group()
