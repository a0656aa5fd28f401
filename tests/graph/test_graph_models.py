"""Models in graph mode: inference, training, dynamic lengths. No CPU tier, and no more memory than eager mode."""

from __future__ import annotations

import copy

import pytest
import torch
from model_zoo import CASES, text
from torch import Tensor

import hardpoint
from hardpoint.graph.report import Explanation, _listening

NAMES = ("digits", "resnet18", "gpt2", "llama", "lstm", "unet")
MODELS = [pytest.param(n, marks=() if n == "digits" else pytest.mark.slow) for n in NAMES]
STEPS = 4  # one plain, one recorded, two replayed


@pytest.fixture(autouse=True)
def _trace_recurrent_layers():
    """By default, Dynamo runs LSTMs in eager mode."""
    with torch._dynamo.config.patch(allow_rnn=True):
        yield


def batch_of(name: str, seed: int) -> dict[str, Tensor]:
    return {k: v.to("sim") for k, v in CASES[name].batch(torch.Generator().manual_seed(seed)).items()}


def replays(made: Explanation) -> int:
    return sum(graph.lowered.runner.runs[2] for graph in made.graphs)


@pytest.mark.parametrize("name", MODELS)
def test_inference(name):
    case = CASES[name]
    model = case.build().to("sim").eval()
    made = Explanation()
    with _listening(made), torch.no_grad():
        compiled = torch.compile(case.loss, backend="hardpoint")
        for step in range(STEPS):
            batch = batch_of(name, step)
            torch.testing.assert_close(compiled(model, batch), case.loss(model, batch), rtol=1e-5, atol=1e-6)
    assert replays(made) > 0
    assert [why for graph in made.graphs for why in graph.left_out] == []


@pytest.mark.parametrize("name", MODELS)
def test_training(name):
    """Losses, parameters and buffers after a few SGD steps, and the peak memory of a step."""
    case = CASES[name]
    first = case.build().to("sim").train()
    second = copy.deepcopy(first)
    compiled = torch.compile(case.loss, backend="hardpoint")
    peaks = {}
    for model, loss in ((first, case.loss), (second, compiled)):
        update = torch.optim.SGD(model.parameters(), lr=0.01)
        losses = []
        for step in range(STEPS + 1):
            batch = batch_of(name, step)
            update.zero_grad()
            torch.sim.synchronize()
            base = torch.sim.memory_allocated()
            torch.sim.reset_peak_memory_stats()
            value = loss(model, batch)
            value.backward()
            torch.sim.synchronize()
            peaks[loss] = torch.sim.max_memory_allocated() - base
            update.step()
            losses.append(value.item())
        if loss is case.loss:
            expected = losses
    assert losses == pytest.approx(expected, rel=case.tolerance)
    for (key, one), other in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5, msg=lambda m, k=key: f"{k}: {m}")
    assert peaks[compiled] <= peaks[case.loss]
    assert {n for n, tiers in hardpoint.counters().items() if tiers.get("cpu")} == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_dynamic_lengths(name):
    """One graph for several text lengths, forward and backward."""
    case = CASES[name]
    model = case.build().to("sim").train()
    made = Explanation()
    with _listening(made):
        compiled = torch.compile(case.loss, backend="hardpoint", dynamic=True)
        for step, length in enumerate((16, 24, 16, 16, 9, 24, 24)):
            generator = torch.Generator().manual_seed(step)
            batch = {k: v.to("sim") for k, v in text(length=length, generator=generator).items()}
            gradients = []
            for loss in (case.loss, compiled):
                model.zero_grad()
                value = loss(model, batch)
                value.backward()
                gradients.append([value.detach(), *(p.grad for p in model.parameters())])
            for expected, found in zip(*gradients, strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert replays(made) > 0
    assert len(made.graphs) <= 4, [graph.name for graph in made.graphs]
