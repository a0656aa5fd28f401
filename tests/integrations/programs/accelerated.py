"""Trains a small net with Accelerate and saves its weights: accelerated.py FILE ddp|fsdp1|fsdp2."""

import sys

import torch
import torch.distributed as dist
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch import nn

BATCH = 16

file, strategy = sys.argv[1:]
options = {
    "ddp": None,
    "fsdp1": {"fsdp_version": 1, "sync_module_states": True, "use_orig_params": True},
    "fsdp2": {"fsdp_version": 2, "reshard_after_forward": True},
}[strategy]
sharding = FullyShardedDataParallelPlugin(**options) if options else None
accelerator = Accelerator(fsdp_plugin=sharding)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
x = torch.randn(BATCH * 4, 8, generator=torch.Generator().manual_seed(1))
data = torch.utils.data.TensorDataset(x, x[:, :4].sin())
loader = torch.utils.data.DataLoader(data, batch_size=BATCH // accelerator.num_processes)
model, update, loader = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), loader)
for inputs, wanted in loader:
    loss = nn.functional.mse_loss(model(inputs), wanted)
    accelerator.backward(loss)
    update.step()
    update.zero_grad()
devices = [None] * accelerator.num_processes
dist.all_gather_object(devices, str(accelerator.device))
weights = accelerator.get_state_dict(model)
if accelerator.is_main_process:
    torch.save({"devices": devices, "weights": {k: v.cpu() for k, v in weights.items()}}, file)
accelerator.end_training()
