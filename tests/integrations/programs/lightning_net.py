"""Trains a small net with Lightning's DDP and saves its weights: lightning_net.py FILE DEVICES [STRATEGY PRECISION]."""

import sys

import lightning
import torch
from torch import nn


class Net(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.losses = []

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.losses.append(loss.item())
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def batches(size: int = 8) -> torch.utils.data.DataLoader:
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x[:, :4].sin()), batch_size=size)


if __name__ == "__main__":
    count = int(sys.argv[2])
    quiet = {"logger": False, "enable_progress_bar": False, "enable_checkpointing": False}
    # Its own sampler would shuffle.
    strategy, precision = sys.argv[3:] or ("auto", "32-true")
    if strategy == "hybrid":
        from lightning.pytorch.strategies import FSDPStrategy

        strategy = FSDPStrategy(device_mesh=(1, count), sharding_strategy="HYBRID_SHARD", auto_wrap_policy={nn.Linear})
    options = {"strategy": strategy, "precision": precision, "use_distributed_sampler": False}
    trainer = lightning.Trainer(max_epochs=2, devices=count, **options, **quiet)
    net = Net()
    data = batches().dataset
    order = torch.utils.data.DistributedSampler(data, count, trainer.local_rank, shuffle=False)
    trainer.fit(net, torch.utils.data.DataLoader(data, 16 // count, sampler=order))
    assert trainer.strategy.root_device == torch.device("sim", trainer.local_rank)
    checkpoint = f"{sys.argv[1]}.ckpt"
    trainer.save_checkpoint(checkpoint, weights_only=True)
    if trainer.is_global_zero:
        weights = torch.load(checkpoint)["state_dict"]
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = scaler.get_scale() if scaler is not None else None
        torch.save({"devices": trainer.world_size, "weights": weights, "scale": scale}, sys.argv[1])
