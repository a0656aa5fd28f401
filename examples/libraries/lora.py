"""Train LoRA adapters with peft, then merge them into the model."""

import peft
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import hardpoint  # noqa: F401  (mounts a device)

device = torch.accelerator.current_accelerator()
torch.manual_seed(0)
sizes = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
base = LlamaForCausalLM(LlamaConfig(**sizes, pad_token_id=0))
model = peft.get_peft_model(base, peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj", "lm_head"])).to(device)
update = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-2)
tokens = torch.arange(16).repeat(4, 2).to(device)
losses = []
for _ in range(30):
    loss = model(input_ids=tokens, labels=tokens).loss
    update.zero_grad()
    loss.backward()
    update.step()
    losses.append(loss.item())
merged = model.merge_and_unload()
print(f"on {merged.device}: {losses[0]:.2f} -> {losses[-1]:.2f}")
assert merged(input_ids=tokens, labels=tokens).loss < losses[0] / 2
