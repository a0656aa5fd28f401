"""Train with DeepSpeed's ZeRO-2: torchrun --nproc-per-node=2 examples/libraries/zero.py"""

import hardpoint  # noqa: F401, I001  (mounts a device)
import deepspeed
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 1))
config = {
    "train_batch_size": 32,
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}},
}
engine, *_ = deepspeed.initialize(model=net, config=config)
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))[rank::ranks].to(engine.device)
losses = []
for _ in range(30):
    loss = nn.functional.mse_loss(engine(x), x.square().mean(1, keepdim=True))
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
if rank == 0:
    print(f"{ranks} processes, this one on {engine.device}: {losses[0]:.3f} -> {losses[-1]:.3f}")
assert losses[-1] < losses[0] / 2
torch.distributed.destroy_process_group()
