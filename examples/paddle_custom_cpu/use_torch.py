"""The same device in PyTorch. Set HARDPOINT_PADDLE_PLUGIN to the plug-in's library."""

import torch

x = torch.ones(2, 3, device="custom_cpu")
print(x + x)

torch.manual_seed(0)
layer = torch.nn.Linear(3, 1).to("custom_cpu")
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    loss = (layer(x) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
