"""Training on several ranks equals training in one process with the same global batch."""

from __future__ import annotations

import sys
from functools import partial

import torch
import torch.distributed as dist
from common import DEVICE, RANK, SIZE, end, start
from models import GPT, compare, net, train, train_alone, train_distributed
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
ADAM = partial(torch.optim.AdamW, lr=3e-3)


def ddp(name: str, **options: object) -> None:
    model = net(name)
    if RANK > 0:  # DDP broadcasts the weights of rank 0
        for parameter in model.parameters():
            parameter.data.zero_()
    optimizer = ADAM if name == "gpt" else SGD
    wrapped = DistributedDataParallel(model, device_ids=[DEVICE.index], **options)
    losses = train_distributed(name, wrapped, optimizer(wrapped.parameters()).step)
    compare((losses, model.state_dict()), train_alone(name, optimizer))


def ddp_without_synchronization() -> None:
    """Gradients of two backward passes accumulate locally before they are reduced."""
    model = DistributedDataParallel(net("digits"))
    other = net("digits")
    x = torch.randn(SIZE * 2, 4, 1, 8, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(DEVICE)
    with model.no_sync():
        model(x[2 * RANK]).square().mean().backward()
    model(x[2 * RANK + 1]).square().mean().backward()
    for part in x:
        (other(part).square().mean() / SIZE).backward()
    for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-7, atol=1e-9)


def fsdp(name: str) -> None:
    model = net(name)
    parts = list(model.blocks) if isinstance(model, GPT) else [model.features]
    for part in parts:
        fully_shard(part)
    fully_shard(model)
    assert isinstance(next(model.parameters()), DTensor)
    optimizer = ADAM if name == "gpt" else SGD
    losses = train_distributed(name, model, optimizer(model.parameters()).step)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=False)
    weights = get_model_state_dict(model, options=options)
    expected = train_alone(name, optimizer)
    if RANK == 0:
        compare((losses, weights), expected)


def zero() -> None:
    model = DistributedDataParallel(net("digits"))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=3e-3)
    losses = train_distributed("digits", model, optimizer.step)
    compare((losses, model.module.state_dict()), train_alone("digits", ADAM))


def dtensor() -> None:
    """Redistribution, products, and tensor parallelism by columns and rows."""
    mesh = init_device_mesh(DEVICE.type, (SIZE,))
    whole = torch.arange(SIZE * 3 * 4.0).view(SIZE * 3, 4)
    rows = distribute_tensor(whole.to(DEVICE), mesh, [Shard(0)])
    assert rows.to_local().shape == (3, 4)
    torch.testing.assert_close(rows.full_tensor().cpu(), whole)
    columns = rows.redistribute(mesh, [Replicate()])
    torch.testing.assert_close((rows @ columns.t().contiguous()).full_tensor().cpu(), whole @ whole.t())
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)).to(DEVICE)
    x = torch.randn(5, 8, device=DEVICE)
    dist.broadcast(x, 0)
    expected = mlp(x)
    expected.square().sum().backward()
    gradient = mlp[0].weight.grad.clone()
    mlp.zero_grad()
    split = parallelize_module(mlp, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    found = split(x)
    found.square().sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(split[0].weight.grad.full_tensor(), gradient)


def mesh_of_two_dimensions() -> None:
    """The default group knows its device, so torch splits it into the groups of each dimension."""
    mesh = init_device_mesh(DEVICE.type, (SIZE // 2, 2), mesh_dim_names=("outer", "inner"))
    for name, members in (("outer", range(RANK % 2, SIZE, 2)), ("inner", range(RANK // 2 * 2, RANK // 2 * 2 + 2))):
        group = mesh.get_group(name)
        assert dist.get_process_group_ranks(group) == list(members)
        total = torch.full((3,), float(RANK), device=DEVICE)
        dist.all_reduce(total, group=group)
        assert total.tolist() == [sum(members)] * 3
    part = dist.split_group(mesh.get_group("inner"), [[1]])
    assert (part is None) == (RANK % 2 == 0)
    model = nn.Linear(4, 2).to(DEVICE)
    dist.broadcast(model.weight.data, 0)
    before = model.weight.detach().clone()
    fully_shard(model, mesh=mesh)  # hybrid: replicated outside, sharded inside
    model(torch.ones(3, 4, device=DEVICE)).sum().backward()
    torch.testing.assert_close(model.weight.grad.full_tensor(), torch.full_like(before, 3.0))


def checkpoint(folder: str) -> None:
    """Save a sharded checkpoint half-way, load it into other nets, and continue to the same losses."""
    import torch.distributed.checkpoint as dcp

    def made() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = net("digits")
        fully_shard(model)
        return model, SGD(model.parameters())

    model, optimizer = made()
    train("digits", model, optimizer.step, parts=SIZE, part=RANK, last=4)
    dcp.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint_id=folder)
    expected = train("digits", model, optimizer.step, parts=SIZE, part=RANK, first=4)
    again, optimizer = made()
    train("digits", again, optimizer.step, parts=SIZE, part=RANK, last=1)  # creates the optimizer state
    state = {"model": again.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    again.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    found = train("digits", again, optimizer.step, parts=SIZE, part=RANK, first=4)
    assert found == expected


start(bound=True)
ddp("digits")
ddp("gpt", bucket_cap_mb=0.02, gradient_as_bucket_view=True)
ddp("gpt", static_graph=True)
ddp_without_synchronization()
fsdp("digits")
fsdp("gpt")
zero()
dtensor()
mesh_of_two_dimensions()
checkpoint(sys.argv[1])
end()
