"""Tiny models of transformers and timm with random weights, and a step of training on the device and on the CPU."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch import nn

#: A model and its inputs.
Example = tuple[nn.Module, dict[str, Any]]
VOCABULARY = 64


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def integers(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(3, below, shape, generator=torch.Generator().manual_seed(0))


def text(padded: bool = False) -> dict[str, Any]:
    ids = integers(VOCABULARY, 2, 12)
    mask = torch.ones_like(ids)
    mask[0, 8:] = 0
    return {"input_ids": ids, "labels": ids, **({"attention_mask": mask} if padded else {})}


def classes(padded: bool = False) -> dict[str, Any]:
    return {**text(padded), "labels": torch.tensor([0, 1])}


def parts() -> dict[str, Any]:
    """A class of each token."""
    return {**text(), "labels": text()["input_ids"] % 2}


def images(size: int = 32) -> dict[str, Any]:
    return {"pixel_values": random(2, 3, size, size)}


def pictures(size: int = 32) -> dict[str, Any]:
    return {**images(size), "labels": torch.tensor([0, 1])}


NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40}
ENCODER = {"vocab_size": VOCABULARY, **BODY, **NO_DROPOUT}
PLAIN = {"vocab_size": VOCABULARY, **BODY}
DECODER = {**PLAIN, "num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
PAIR = {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in (("layers", 1), ("attention_heads", 4))}
PAIR |= {"d_model": 32, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "vocab_size": VOCABULARY, "pad_token_id": 0}
SPEECH = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 20}
SPEECH |= {"conv_dim": (16, 16), "conv_stride": (4, 4), "conv_kernel": (8, 8), "num_feat_extract_layers": 2}
SPEECH |= {"num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "layerdrop": 0.0, "vocab_size": 12}
for _name in ("hidden", "attention", "feat_proj", "activation", "final"):
    SPEECH[f"{_name}_dropout"] = 0.0
TOWER = {"hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 1, "num_attention_heads": 4}

#: Model -> its class, the options of its configuration, and its inputs.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]] = {
    "Bert": ("ForMaskedLM", ENCODER, partial(text, padded=True)),
    "Roberta": ("ForSequenceClassification", {**ENCODER, "max_position_embeddings": 32}, classes),
    "Albert": (
        "ForSequenceClassification",
        {**ENCODER, "embedding_size": 16, "classifier_dropout_prob": 0.0},
        classes,
    ),
    "DistilBert": (
        "ForTokenClassification",
        {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 40}
        | {"dropout": 0.0, "attention_dropout": 0.0},
        parts,
    ),
    "Electra": ("ForPreTraining", {**ENCODER, "embedding_size": 16}, parts),
    "DebertaV2": (
        "ForSequenceClassification",
        {**ENCODER, "relative_attention": True, "pos_att_type": "p2c|c2p", "position_buckets": 8}
        | {"max_position_embeddings": 32, "norm_rel_ebd": "layer_norm", "share_att_key": True},
        partial(classes, padded=True),
    ),
    "MPNet": ("ForMaskedLM", ENCODER, text),
    "ModernBert": (
        "ForMaskedLM",
        {**PLAIN, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
        | {"local_attention": 8},
        partial(text, padded=True),
    ),
    "Longformer": ("ForMaskedLM", {**ENCODER, "attention_window": 4, "max_position_embeddings": 32}, text),
    "BigBird": ("ForMaskedLM", {**ENCODER, "attention_type": "original_full"}, text),
    "GPT2": (
        "LMHeadModel",
        {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "loss_type": "ForCausalLM"}
        | dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
        text,
    ),
    "GPTNeoX": ("ForCausalLM", PLAIN, text),
    "OPT": (
        "ForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"ffn_dim": 40, "dropout": 0.0, "word_embed_proj_dim": 32, "pad_token_id": 0},
        text,
    ),
    "Bloom": ("ForCausalLM", {"vocab_size": VOCABULARY, "hidden_size": 32, "n_layer": 2, "n_head": 4}, text),
    "Llama": ("ForCausalLM", DECODER, partial(text, padded=True)),
    "Mistral": ("ForCausalLM", {**DECODER, "sliding_window": 4}, text),
    "Mixtral": ("ForCausalLM", {**DECODER, "num_local_experts": 4, "output_router_logits": True}, text),
    "Qwen2": ("ForCausalLM", DECODER, text),
    "Qwen3Moe": ("ForCausalLM", {**DECODER, **EXPERTS, "head_dim": 8, "num_experts": 4}, text),
    "Gemma2": ("ForCausalLM", {**DECODER, "head_dim": 8, "sliding_window": 4}, text),
    "Phi3": ("ForCausalLM", DECODER, text),
    "Falcon": (
        "ForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
        | {"attention_dropout": 0.0, "hidden_dropout": 0.0, "alibi": True},
        text,
    ),
    "DeepseekV3": (
        "ForCausalLM",
        {**DECODER, **EXPERTS, "num_key_value_heads": 4, "n_routed_experts": 4, "n_group": 2, "topk_group": 1}
        | {"kv_lora_rank": 16, "q_lora_rank": 16, "first_k_dense_replace": 1}
        | dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
        text,
    ),
    "Mamba": (
        "ForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
        text,
    ),
    "Mamba2": (
        "ForCausalLM",
        {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8}
        | {"head_dim": 8, "n_groups": 2, "chunk_size": 4},
        text,
    ),
    "T5": (
        "ForConditionalGeneration",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 40, "num_layers": 2, "num_heads": 4}
        | {"dropout_rate": 0.0, "decoder_start_token_id": 0},
        text,
    ),
    "Bart": ("ForConditionalGeneration", {**PAIR, "max_position_embeddings": 32, "dropout": 0.0}, text),
    "ViT": ("ForImageClassification", {**BODY, **NO_DROPOUT, "image_size": 32, "patch_size": 8}, pictures),
    "Swin": (
        "ForImageClassification",
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [1, 2], "num_heads": [2, 2]}
        | {"window_size": 4, "drop_path_rate": 0.0, **NO_DROPOUT},
        pictures,
    ),
    "ConvNext": ("ForImageClassification", {"hidden_sizes": [8, 12, 16, 20], "depths": [1, 1, 1, 1]}, pictures),
    "ResNet": (
        "ForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
        pictures,
    ),
    "Segformer": (
        "ForSemanticSegmentation",
        {"num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [8, 16]}
        | {"patch_sizes": [7, 3], "strides": [4, 2], "num_attention_heads": [1, 2], "mlp_ratios": [2, 2]}
        | {"decoder_hidden_size": 16, "drop_path_rate": 0.0, "classifier_dropout_prob": 0.0, **NO_DROPOUT},
        lambda: {**images(64), "labels": integers(5, 2, 64, 64) - 3},
    ),
    "CLIP": (
        "Model",
        {"text_config": {**TOWER, "vocab_size": VOCABULARY, "max_position_embeddings": 16, "eos_token_id": 2}}
        | {"vision_config": {**TOWER, "image_size": 32, "patch_size": 8}, "projection_dim": 16},
        lambda: {**images(), "input_ids": text()["input_ids"], "return_loss": True},
    ),
    "Wav2Vec2": (
        "ForCTC",
        {**SPEECH, "apply_spec_augment": False, "pad_token_id": 0},
        lambda: {"input_values": random(2, 800), "labels": integers(12, 2, 5)},
    ),
    "Whisper": (
        "ForConditionalGeneration",
        {**PAIR, "num_mel_bins": 8, "max_source_positions": 30, "max_target_positions": 40, "dropout": 0.0}
        | {"decoder_start_token_id": 3},
        lambda: {"input_features": random(2, 8, 60), "labels": text()["input_ids"]},
    ),
    "PatchTST": (
        "ForPrediction",
        {"num_input_channels": 2, "context_length": 32, "prediction_length": 4, "patch_length": 8, "patch_stride": 8}
        | {"d_model": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 16, "loss": "mse"}
        | {f"{part}dropout": 0.0 for part in ("", "attention_", "positional_", "path_", "ff_", "head_")},
        lambda: {"past_values": random(2, 32, 2), "future_values": random(2, 4, 2)},
    ),
}

#: Model -> the options that make it small.
TIMM: dict[str, dict[str, Any]] = {
    "convnext_atto": {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)},
    "deit_tiny_patch16_224": {"img_size": 32, "depth": 2},
    "densenet121": {"growth_rate": 8, "block_config": (2, 2)},
    "edgenext_xx_small": {},
    "efficientnet_lite0": {},
    "ghostnet_050": {},
    "mixer_s32_224": {"img_size": 32},
    "mobilenetv3_small_050": {},
    "poolformer_s12": {},
    "regnetx_002": {},
    "resnet10t": {},
    "seresnext26d_32x4d": {},
    "swin_tiny_patch4_window7_224": {
        **{"img_size": 32, "window_size": 4, "embed_dim": 24, "depths": (1, 1), "num_heads": (2, 4)},
        "drop_path_rate": 0.0,
    },
    "xcit_nano_12_p16_224": {"depth": 2, "img_size": 32},
}


def of_transformers(name: str) -> Example:
    import transformers

    kind, options, inputs = TRANSFORMERS[name]
    config = getattr(transformers, f"{name}Config")(**options)
    return getattr(transformers, name + kind)(config), inputs()


class Classifier(nn.Module):
    """A model of timm with the outputs of one of transformers."""

    def __init__(self, name: str) -> None:
        import timm

        super().__init__()
        self.net = timm.create_model(name, num_classes=4, drop_rate=0.0, **TIMM[name])

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = self.net(pixel_values)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def of_timm(name: str) -> Example:
    # In double precision: batch norms of few numbers, and ReLU6, amplify rounding.
    batch = pictures(TIMM[name].get("img_size", 64))
    return Classifier(name).double(), {**batch, "pixel_values": batch["pixel_values"].double()}


def step(example: Example, device: str) -> dict[str, Any]:
    """Loss, gradients and statistics of a training step, and the outputs after it in eval mode."""
    model = copy.deepcopy(example[0]).to(device).train()
    inputs = {k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in example[1].items()}
    # A large eps: the sign of a tiny gradient is rounding.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-3)
    loss = model(**inputs)["loss"]
    loss.backward()
    grads = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    optimizer.step()
    buffers = {name: buffer.cpu() for name, buffer in model.named_buffers()}
    with torch.no_grad():
        outputs = model.eval()(**inputs)
    results = {name: value.cpu() for name, value in outputs.items() if isinstance(value, torch.Tensor)}
    return {"loss": loss.detach().cpu(), "gradients": grads, "buffers": buffers, "outputs": results}


def differences(names: Iterable[str], make: Callable[[str], Example], device: str) -> dict[str, str]:
    """Compare a step of each model on the device with the CPU's; returns what differs or fails, by model."""
    warnings.simplefilter("ignore")
    found = {}
    for name in names:
        torch.manual_seed(0)
        example = make(name)
        expected = step(example, "cpu")
        try:
            result = step(example, device)
            for what, rtol, atol in (
                ("loss", 1e-4, 1e-5),
                ("gradients", 2e-3, 1e-4 * max(1.0, *(g.abs().max().item() for g in expected["gradients"].values()))),
                ("buffers", 1e-4, 1e-4),
                ("outputs", 2e-3, 2e-3),
            ):
                torch.testing.assert_close(result[what], expected[what], rtol=rtol, atol=atol)
        except Exception as error:  # every model's failure is reported
            found[name] = f"{type(error).__name__}: {error}"
    return found
