"""Fits a small net to the squared length of a vector, on the device ``sim``."""

import kernels  # noqa: F401
import torch
from torch import nn

torch.manual_seed(0)
x = 2 * torch.randn(256, 8)
target = x.square().mean(1, keepdim=True)
net = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

x, target, net = x.to("sim"), target.to("sim"), net.to("sim")
optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
for step in range(31):
    loss = nn.functional.mse_loss(net(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"step {step:2}  loss {loss.item():.3f}")
