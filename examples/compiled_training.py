"""Train a net with torch.compile, as on any other device."""

import torch

import hardpoint

layers = [torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 1)]
net = torch.nn.Sequential(*layers).to("sim")
update = torch.optim.AdamW(net.parameters(), lr=1e-2)
step = torch.compile(net)

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
print(sum(name.startswith("triton::") for name in hardpoint.counters()), "Triton kernels")
assert losses[-1] < losses[0] / 2
