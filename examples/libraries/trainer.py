"""Fine-tune a small transformer with Trainer; the program names no device."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import hardpoint  # mounts a device

torch.manual_seed(0)
text = b"the quick brown fox jumps over the lazy dog " * 40
rows = torch.tensor(list(text)[: len(text) // 32 * 32]).view(-1, 32)
sizes = {"vocab_size": 128, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4}
model = GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, max_steps=40, learning_rate=3e-3, logging_steps=10, bf16=True, report_to=[])
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in rows])
    trainer.train()
losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
print(f"on {model.device}: {losses[0]:.2f} -> {losses[-1]:.2f}")
print(hardpoint.summary(limit=3))
assert losses[-1] < losses[0] / 2
