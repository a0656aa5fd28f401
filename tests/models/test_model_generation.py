"""Greedy generation with a key-value cache gives the CPU's tokens."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from model_zoo import VOCABULARY, gpt2, llama
from training import cpu_tier

import hardpoint

pytestmark = pytest.mark.slow

MODELS = {"gpt2": gpt2, "llama": llama}
LENGTH, NEW = 8, 16


@cache
def generated(name: str, device: str) -> tuple[torch.Tensor, dict[str, int]]:
    """Tokens for two prompts, the second left-padded, and the calls in the CPU tier."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for weight in model.parameters():
        weight.data *= 4  # so that the margin of the likeliest token far exceeds rounding errors
    model = model.to(device)
    ids = torch.randint(1, VOCABULARY, (2, LENGTH), generator=torch.Generator().manual_seed(2))
    mask = torch.ones_like(ids)
    mask[1, :3] = 0
    hardpoint.reset_counters()
    tokens = model.generate(
        input_ids=(ids * mask).to(device),
        attention_mask=mask.to(device),
        max_new_tokens=NEW,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
    )
    counted = cpu_tier()
    return tokens.cpu(), counted


@pytest.mark.parametrize("name", MODELS)
def test_tokens(name):
    expected, tokens = generated(name, "cpu")[0], generated(name, "sim")[0]
    assert expected.shape == (2, LENGTH + NEW)
    assert len(set(expected[0, LENGTH:].tolist())) > 2, "a model that repeats one token shows little"
    assert tokens.tolist() == expected.tolist()


@pytest.mark.parametrize("name", MODELS)
def test_no_cpu_tier(name):
    assert generated(name, "sim")[1] == {}
