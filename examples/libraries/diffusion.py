"""Train a small diffusion UNet with diffusers, then draw a sample."""

import torch
from diffusers import DDPMScheduler, UNet2DModel

import hardpoint  # noqa: F401  (mounts a device)

device = torch.accelerator.current_accelerator()
torch.manual_seed(0)
blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
sizes = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "layers_per_block": 1, "norm_num_groups": 8}
unet = UNet2DModel(**sizes, **blocks, block_out_channels=(16, 32)).to(device)
scheduler = DDPMScheduler(num_train_timesteps=50)
update = torch.optim.AdamW(unet.parameters(), lr=2e-3)
images = torch.ones(8, 1, 8, 8, device=device) * torch.linspace(-1, 1, 8, device=device)
losses = []
for _ in range(40):
    noise = torch.randn_like(images)
    steps = torch.randint(0, 50, (8,), device=device)
    loss = torch.nn.functional.mse_loss(unet(scheduler.add_noise(images, noise, steps), steps).sample, noise)
    update.zero_grad()
    loss.backward()
    update.step()
    losses.append(loss.item())
sample = torch.randn(1, 1, 8, 8, device=device)
with torch.no_grad():
    for step in scheduler.timesteps:
        sample = scheduler.step(unet(sample, step).sample, step, sample).prev_sample
print(f"on {sample.device}: {losses[0]:.2f} -> {sum(losses[-5:]) / 5:.2f}, a sample of {tuple(sample.shape)}")
assert sum(losses[-5:]) / 5 < losses[0] / 2
assert sample.isfinite().all()
