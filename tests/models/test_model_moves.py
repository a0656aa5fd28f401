"""Moving a model: tied weights stay tied, and an optimizer keeps its parameters."""

from __future__ import annotations

import torch
from model_zoo import gpt2
from torch import nn


def test_tied_weights_stay_tied():
    model = gpt2()
    assert model.lm_head.weight is model.transformer.wte.weight
    model.to("sim")
    assert model.lm_head.weight is model.transformer.wte.weight
    model.to("cpu")
    assert model.lm_head.weight is model.transformer.wte.weight


def test_optimizer_follows_its_parameters():
    layer = nn.Linear(4, 4)
    update = torch.optim.SGD(layer.parameters(), lr=0.5)
    layer.to("sim")
    before = layer.weight.detach().cpu()
    layer(torch.ones(1, 4, device="sim")).sum().backward()
    update.step()
    torch.testing.assert_close(layer.weight.detach().cpu(), before - 0.5)
