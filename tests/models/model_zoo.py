"""Small models with realistic architectures, each with seeded data and a loss."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor, nn
from torch.nn import functional as F

Batch = dict[str, Tensor]
CLASSES, VOCABULARY = 10, 96


@dataclass(frozen=True)
class Case:
    """A model with its data and loss."""

    name: str
    build: Callable[[], nn.Module]
    batch: Callable[[torch.Generator], Batch]
    loss: Callable[[nn.Module, Batch], Tensor]
    #: Key in OPTIMIZERS.
    optimizer: str
    #: Replaces the optimizer's learning rate.
    rate: float | None = None
    #: Relative tolerance of the float32 loss per step. In 20 steps on the CPU, float32 and float64 agree within 1e-6.
    tolerance: float = 1e-5
    #: Runs in make quick.
    quick: bool = False


SGD = partial(torch.optim.SGD, lr=0.02, momentum=0.9, weight_decay=1e-3)
ADAM = partial(torch.optim.Adam, lr=1e-3)
ADAMW = partial(torch.optim.AdamW, lr=1e-3, weight_decay=0.05)

#: Each optimizer in three implementations; a fused one is a single operator for all parameters.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    f"{name}-{way}": partial(make, **options)
    for name, make in (
        ("sgd", SGD),
        ("nesterov", partial(SGD, nesterov=True)),
        ("adam", ADAM),
        ("amsgrad", partial(ADAM, amsgrad=True)),
        ("adamw", ADAMW),
    )
    for way, options in (("plain", {"foreach": False}), ("foreach", {"foreach": True}), ("fused", {"fused": True}))
}


# ---- Data


def images(size: int, channels: int = 3, batch: int = 4, *, generator: torch.Generator) -> Batch:
    return {
        "pixel_values": torch.randn(batch, channels, size, size, generator=generator),
        "labels": torch.randint(CLASSES, (batch,), generator=generator),
    }


def text(batch: int = 4, length: int = 32, *, generator: torch.Generator) -> Batch:
    ids = torch.randint(VOCABULARY, (batch, length), generator=generator)
    return {"input_ids": ids, "labels": ids.clone()}


def padded_text(batch: int = 4, length: int = 32, *, generator: torch.Generator) -> Batch:
    """Sentences of different lengths, each with a class."""
    ids = torch.randint(VOCABULARY, (batch, length), generator=generator)
    lengths = torch.randint(length // 2, length + 1, (batch, 1), generator=generator)
    mask = (torch.arange(length) < lengths).long()
    labels = torch.randint(CLASSES, (batch,), generator=generator)
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": labels}


def pairs_of_text(*, generator: torch.Generator) -> Batch:
    source, target = text(length=24, generator=generator), text(length=16, generator=generator)
    target["labels"][:, -3:] = -100  # ignore_index of cross_entropy
    return {"input_ids": source["input_ids"], "labels": target["labels"]}


def segments(size: int = 32, *, generator: torch.Generator) -> Batch:
    return {
        "pixel_values": torch.randn(2, 3, size, size, generator=generator),
        "labels": torch.randint(CLASSES, (2, size, size), generator=generator),
    }


def noisy_images(size: int = 16, *, generator: torch.Generator) -> Batch:
    return {
        "pixel_values": torch.randn(4, 3, size, size, generator=generator),
        "noise": torch.randn(4, 3, size, size, generator=generator),
        "time": torch.randint(100, (4,), generator=generator),
    }


# ---- Custom models


class Recurrent(nn.Module):
    """Embedding, two bidirectional recurrent layers, and a classifier."""

    def __init__(self, layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.layers = layer(32, 48, num_layers=2, batch_first=True, bidirectional=True)
        self.classifier = nn.Linear(96, CLASSES)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.classifier(self.layers(self.embedding(input_ids))[0].mean(1))


class Block(nn.Module):
    """Residual block: group norm, SiLU and convolution, twice, with an optional time embedding in between."""

    def __init__(self, inputs: int, outputs: int, time: int = 0) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(4, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = nn.Sequential(nn.GroupNorm(4, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Conv2d(inputs, outputs, 1)
        self.time = nn.Linear(time, outputs) if time else None

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        middle = self.first(x)
        if self.time is not None:
            middle = middle + self.time(time)[:, :, None, None]
        return self.second(middle) + self.skip(x)


class UNet(nn.Module):
    """Downsamples by strided convolution and pooling; upsamples by transposed convolution and interpolation."""

    def __init__(self, outputs: int, time: int = 0, interpolation: str = "nearest") -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.ModuleList([Block(16, 16, time), Block(32, 32, time)])
        self.shrink = nn.ModuleList([nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.AvgPool2d(2)])
        self.middle = Block(32, 32, time)
        corners = {} if interpolation == "nearest" else {"align_corners": False}
        self.grow = nn.ModuleList(
            [
                nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1),
                nn.Upsample(scale_factor=2, mode=interpolation, **corners),
            ]
        )
        self.up = nn.ModuleList([Block(32, 16, time), Block(64, 32, time)])
        self.leave = nn.Conv2d(16, outputs, 1)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        x = self.enter(x)
        kept = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            kept.append(block(x, time))
            x = shrink(kept[-1])
        x = self.middle(x, time)
        for i in (1, 0):
            x = self.up[i](torch.cat([self.grow[i](x), kept[i]], 1), time)
        return self.leave(x)


class Diffusion(nn.Module):
    """Predicts the noise that was added to an image; the amount depends on a time step."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.net = UNet(3, width, "bilinear")
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.register_buffer("frequencies", torch.exp(-torch.arange(width // 2) * 0.5))
        self.register_buffer("signal", torch.cumprod(1 - torch.linspace(1e-4, 0.05, 100), 0))

    def forward(self, image: Tensor, noise: Tensor, time: Tensor) -> Tensor:
        share = self.signal[time][:, None, None, None]
        angles = time[:, None] * self.frequencies
        embedding = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        return self.net(share.sqrt() * image + (1 - share).sqrt() * noise, embedding)


def digits_net() -> nn.Module:
    """The net of examples/digits.py without dropout, whose random numbers depend on the device."""
    path = Path(__file__).parents[2] / "examples" / "digits.py"
    spec = importlib.util.spec_from_file_location("digits_example", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    net = module.Net()
    next(layer for layer in net if isinstance(layer, nn.Dropout)).p = 0.0
    return net


# ---- Models from transformers


def zero_init_residual(model: nn.Module, ends: str) -> nn.Module:
    """Start residual branches at zero, so that training does not amplify rounding errors.

    Otherwise deep nets with batch norm are chaotic: after 20 steps of a ResNet-50 on the CPU, the losses in float32 and
    in float64 differ by more than 10%.
    """
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(layer, nn.BatchNorm2d) and re.search(ends, name):
            nn.init.zeros_(layer.weight)
    return model


def resnet(layer: str, depths: list[int]) -> nn.Module:
    widths = [16, 32, 48, 64] if layer == "basic" else [32, 64, 96, 128]
    config = transformers.ResNetConfig(
        embedding_size=16, hidden_sizes=widths, depths=depths, layer_type=layer, num_labels=CLASSES
    )
    last = 1 if layer == "basic" else 2
    return zero_init_residual(transformers.ResNetForImageClassification(config), rf"\.layer\.{last}\.normalization$")


def mobilenet() -> nn.Module:
    config = transformers.MobileNetV2Config(depth_multiplier=0.35, classifier_dropout_prob=0.0, num_labels=CLASSES)
    model = transformers.MobileNetV2ForImageClassification(config)
    residual = [str(i) for i, block in enumerate(model.mobilenet_v2.layer) if block.use_residual]
    return zero_init_residual(model, rf"\.layer\.({'|'.join(residual)})\.reduce_1x1\.normalization$")


def make(model: Callable[..., nn.Module], config: Callable[..., Any], **options: Any) -> nn.Module:
    return model(config(**options))


#: Options shared by the transformer models, under their most common names.
BODY: dict[str, Any] = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128}
WORDS: dict[str, Any] = {"vocab_size": VOCABULARY, "num_hidden_layers": 2, "max_position_embeddings": 64}
CLASSIFIER: dict[str, Any] = {
    "num_labels": CLASSES,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
ENDLESS: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": None}

vit = partial(
    make,
    transformers.ViTForImageClassification,
    transformers.ViTConfig,
    **{**BODY, **CLASSIFIER, "num_hidden_layers": 3, "image_size": 32, "patch_size": 8},
)
convnext = partial(
    make,
    transformers.ConvNextForImageClassification,
    transformers.ConvNextConfig,
    **{"hidden_sizes": [16, 32, 48, 64], "depths": [1, 1, 2, 1], "num_labels": CLASSES},
)
gpt2 = partial(
    make,
    transformers.GPT2LMHeadModel,
    transformers.GPT2Config,
    **{"vocab_size": VOCABULARY, "n_positions": 64, "n_embd": 64, "n_layer": 2, "n_head": 4, **ENDLESS},
    **dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
)
llama = partial(
    make,
    transformers.LlamaForCausalLM,
    transformers.LlamaConfig,
    **{**BODY, **WORDS, **ENDLESS, "num_key_value_heads": 2},
)
bert = partial(
    make,
    transformers.BertForSequenceClassification,
    transformers.BertConfig,
    **{**BODY, **WORDS, **CLASSIFIER, "problem_type": "single_label_classification"},
)
t5 = partial(
    make,
    transformers.T5ForConditionalGeneration,
    transformers.T5Config,
    **{"vocab_size": VOCABULARY, "d_model": 64, "d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4},
    **{"dropout_rate": 0.0, "decoder_start_token_id": 0},
)


# ---- Losses


def own(model: nn.Module, batch: Batch) -> Tensor:
    """Loss computed by a transformers model."""
    return model(**batch).loss


def classified(model: nn.Module, batch: Batch) -> Tensor:
    inputs: Any = batch.get("pixel_values", batch.get("input_ids"))
    return F.cross_entropy(model(inputs), batch["labels"])


def denoised(model: nn.Module, batch: Batch) -> Tensor:
    return F.mse_loss(model(batch["pixel_values"], batch["noise"], batch["time"]), batch["noise"])


def case(
    name: str,
    build: Callable[[], nn.Module],
    data: Callable[..., Batch],
    loss: Callable[[nn.Module, Batch], Tensor],
    optimizer: str,
    **options: Any,
) -> Case:
    return Case(name, build, lambda generator: data(generator=generator), loss, optimizer, **options)


#: Chains of ReLUs amplify rounding errors in jumps.
NORMED: dict[str, Any] = {"rate": 5e-3, "tolerance": 1e-4}

CASES = {
    c.name: c
    for c in (
        case("digits", digits_net, partial(images, 8, 1, 16), classified, "sgd-plain", quick=True),
        case("resnet18", partial(resnet, "basic", [2, 2, 2, 2]), partial(images, 64), own, "sgd-foreach", **NORMED),
        case("resnet50", partial(resnet, "bottleneck", [3, 4, 6, 3]), partial(images, 64), own, "sgd-fused", **NORMED),
        # A rounding error flips one of its ReLU6s in step ten. In double precision nothing differs.
        case("mobilenet", mobilenet, partial(images, 64), own, "nesterov-foreach", rate=3e-4, tolerance=5e-3),
        case("vit", vit, partial(images, 32), own, "adamw-foreach"),
        case("convnext", convnext, partial(images, 64), own, "adamw-fused"),
        case("gpt2", gpt2, text, own, "adamw-plain"),
        case("llama", llama, text, own, "adam-fused"),
        case("bert", bert, padded_text, own, "adam-foreach"),
        case("t5", t5, pairs_of_text, own, "adamw-foreach"),
        case("lstm", partial(Recurrent, nn.LSTM), padded_text, classified, "adam-plain"),
        case("gru", partial(Recurrent, nn.GRU), padded_text, classified, "nesterov-fused"),
        case("unet", partial(UNet, CLASSES), segments, classified, "adamw-foreach"),
        case("diffusion", Diffusion, noisy_images, denoised, "amsgrad-foreach"),
    )
}
