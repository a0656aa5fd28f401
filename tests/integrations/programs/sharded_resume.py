"""Resumes training of a sharded model (FSDP2) with transformers' Trainer: sharded_resume.py FOLDER FILE."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).parents[1]))
from text_model import data, model
from transformers import Trainer, TrainingArguments

folder, file = sys.argv[1:]
arguments = TrainingArguments(
    folder,
    max_steps=4,
    per_device_train_batch_size=4,
    save_steps=2,
    logging_steps=1,
    bf16=True,
    report_to=[],
    disable_tqdm=True,
    seed=3,
    fsdp="full_shard auto_wrap",
    fsdp_config={"version": 2, "fsdp_version": 2, "transformer_layer_cls_to_wrap": ["GPT2Block"]},
)
losses = []
for checkpoint in (None, f"{folder}/checkpoint-2"):
    trainer = Trainer(model(dropout=0.2), arguments, train_dataset=data())
    trainer.train(resume_from_checkpoint=checkpoint)
    losses.append([row["loss"] for row in trainer.state.log_history if "loss" in row])
if arguments.process_index == 0:
    torch.save({"device": str(trainer.model.device), "losses": losses}, file)
dist.destroy_process_group()
