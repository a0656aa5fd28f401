"""Trains a small net with Ray Train and saves its weights: ray_net.py FILE WORKERS (0: in this process)."""

import sys
import tempfile

import ray
import torch
import torch.distributed as dist
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_data_loader, prepare_model
from torch import nn

BATCH = 16


def train(config: dict) -> None:
    torch.manual_seed(0)
    net = prepare_model(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)))
    update = torch.optim.SGD(net.parameters(), lr=0.1)
    workers = ray.train.get_context().get_world_size()
    x = torch.randn(BATCH * 4, 8, generator=torch.Generator().manual_seed(1))
    data = torch.utils.data.TensorDataset(x, x[:, :4].sin())
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH // workers)
    for inputs, wanted in prepare_data_loader(loader):
        update.zero_grad()
        nn.functional.mse_loss(net(inputs), wanted).backward()
        update.step()
    found = [str(get_device()), str(inputs.device), torch.accelerator.current_device_index()]
    places = [found] * workers
    if workers > 1:  # otherwise in the program's own process, without a process group
        dist.all_gather_object(places, found)
    if ray.train.get_context().get_world_rank() == 0:
        weights = {name.removeprefix("module."): value.cpu() for name, value in net.state_dict().items()}
        torch.save({"places": places, "weights": weights}, config["file"])


if __name__ == "__main__":
    workers = int(sys.argv[2])
    if workers > 1:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    with tempfile.TemporaryDirectory() as folder:
        TorchTrainer(
            train,
            train_loop_config={"file": sys.argv[1]},
            scaling_config=ScalingConfig(num_workers=workers),
            run_config=RunConfig(storage_path=folder),
        ).fit()
    ray.shutdown()
