"""A small language model and its data: the same numbers on every device and in every process."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

VOCABULARY = 48


def model(dropout: float = 0.0) -> GPT2LMHeadModel:
    torch.manual_seed(1)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
    rates = dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), dropout)
    return GPT2LMHeadModel(GPT2Config(**sizes, **rates, bos_token_id=0, eos_token_id=0, loss_type="ForCausalLM"))


def data(count: int = 32) -> list[dict[str, torch.Tensor]]:
    rows = torch.randint(0, VOCABULARY, (count, 16), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": row} for row in rows]
