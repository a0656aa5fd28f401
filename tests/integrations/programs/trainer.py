"""Trains a small model with transformers' Trainer and saves its weights: trainer.py FILE BATCH [fsdp2]."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))
from text_model import data, model
from transformers import Trainer, TrainingArguments

SHARDING = {"fsdp": "full_shard auto_wrap"}
SHARDING["fsdp_config"] = {"version": 2, "fsdp_version": 2, "transformer_layer_cls_to_wrap": ["GPT2Block"]}

with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=4,
        per_device_train_batch_size=int(sys.argv[2]),
        learning_rate=0.1,
        optim="sgd",  # Adam turns rounding of tiny gradients into full steps
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=3,
        **(SHARDING if sys.argv[3:] == ["fsdp2"] else {}),
    )
    trainer = Trainer(model(), arguments, train_dataset=data())
    trainer.train()
devices = [None] * arguments.world_size
dist.all_gather_object(devices, str(trainer.accelerator.device))
weights = trainer.accelerator.get_state_dict(trainer.model_wrapped)
if arguments.process_index == 0:
    kind = type(trainer.model_wrapped).__name__
    torch.save({"devices": devices, "kind": kind, "weights": {k: v.cpu() for k, v in weights.items()}}, sys.argv[1])
dist.destroy_process_group()
