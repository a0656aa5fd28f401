"""Train with Lightning; Trainer() chooses the device."""

import lightning
import torch
from torch import nn

import hardpoint  # noqa: F401  (mounts a device)


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 1))
        self.losses = []

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


torch.manual_seed(0)
x = torch.randn(256, 8)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.square().mean(1, keepdim=True)), batch_size=32)
net = Net()
trainer = lightning.Trainer(max_epochs=10, devices=1, logger=False, enable_checkpointing=False)
trainer.fit(net, loader)
print(f"on {trainer.strategy.root_device}: {net.losses[0]:.3f} -> {net.losses[-1]:.3f}")
assert net.losses[-1] < net.losses[0] / 2
