"""Train a net in graph mode: one line more than in eager mode."""

import torch

import hardpoint  # noqa: F401  (mounts a device)

net = torch.nn.Sequential(
    torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Dropout(0.1), torch.nn.LayerNorm(32), torch.nn.Linear(32, 1)
).to("sim")
update = torch.optim.AdamW(net.parameters(), lr=1e-2, fused=True)
step = torch.compile(net, backend="hardpoint")

inputs = torch.randn(64, 8, device="sim")
wanted = inputs.square().mean(1, keepdim=True)
losses = []
for _ in range(30):
    update.zero_grad()
    loss = torch.nn.functional.mse_loss(step(inputs), wanted)
    loss.backward()
    update.step()
    losses.append(loss.item())
print(f"{losses[0]:.3f} -> {losses[-1]:.3f}")
assert losses[-1] < losses[0] / 2
