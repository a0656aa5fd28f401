"""Dropout under activation checkpointing: recomputation draws the same mask."""

from __future__ import annotations

import pytest
import torch
from model_zoo import gpt2
from torch import nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.slow


def gradients(seed: int, reentrant: bool | None) -> list[torch.Tensor]:
    """Gradients of a net with dropout; `reentrant=None` disables checkpointing."""
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5), nn.GELU(), nn.Dropout(0.1)) for _ in range(3)]
    net = nn.ModuleList(blocks).to("sim")
    x = torch.randn(32, 64).to("sim").requires_grad_()
    torch.manual_seed(seed)
    y = x
    for block in net:
        y = block(y) if reentrant is None else checkpoint(block, y, use_reentrant=reentrant)
    y.square().sum().backward()
    return [p.grad.cpu() for p in [x, *net.parameters()]]


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients(reentrant):
    expected, others = gradients(1, None), gradients(2, None)
    assert not any(torch.equal(a, b) for a, b in zip(expected, others, strict=True))  # the seed matters
    for grad, reference in zip(gradients(1, reentrant), expected, strict=True):
        assert torch.equal(grad, reference)


def test_later_random_numbers_are_unchanged():
    torch.manual_seed(1)
    layer = nn.Dropout(0.5)
    x = torch.ones(1000, device="sim", requires_grad=True)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    after = torch.rand(8, device="sim").cpu()
    torch.manual_seed(1)
    layer(x)
    assert torch.equal(after, torch.rand(8, device="sim").cpu())


def test_model_with_checkpointing():
    grads = []
    for checkpointed in (False, True):
        torch.manual_seed(0)
        model = gpt2().train()
        for layer in model.modules():
            if isinstance(layer, nn.Dropout):
                layer.p = 0.2
        model.to("sim")
        if checkpointed:
            model.gradient_checkpointing_enable()
        ids = torch.randint(96, (2, 16), generator=torch.Generator().manual_seed(3)).to("sim")
        torch.manual_seed(4)
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        grads.append({name: p.grad.cpu() for name, p in model.named_parameters()})
    for name, grad in grads[0].items():
        assert torch.equal(grads[1][name], grad), name
