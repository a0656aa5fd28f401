"""Trains a small model with transformers' Trainer and saves its weights: trainer.py FILE BATCH."""

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))
from text_model import data, model
from transformers import Trainer, TrainingArguments

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
    )
    trainer = Trainer(model(), arguments, train_dataset=data())
    trainer.train()
devices = [None] * arguments.world_size
dist.all_gather_object(devices, str(trainer.accelerator.device))
if arguments.process_index == 0:
    weights = {
        name: value.cpu() for name, value in trainer.accelerator.unwrap_model(trainer.model).state_dict().items()
    }
    torch.save({"devices": devices, "weights": weights}, sys.argv[1])
dist.destroy_process_group()
