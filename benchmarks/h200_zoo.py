"""Models with random weights for h200_models.py, for which Hardpoint was not tuned: training and inference.

From torchvision and transformers, and written here where neither has one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Batch = dict[str, Any]


class Model(NamedTuple):
    """A model and its work.

    Attributes:
        make: The model.
        batch: Its inputs, on the CPU.
        loss: From its output and the inputs, for training; None for inference.
        half: Whether it runs under autocast to bfloat16.
    """

    make: Callable[[], Any]
    batch: Callable[[], Batch]
    loss: Callable[[Any, Batch], Any] | None = None
    half: bool = True


def _vision(name: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torchvision

        return getattr(torchvision.models, name)(**options)

    return make


def _text(model: str, config: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**options))

    return make


def _images(number: int, channels_last: bool = False) -> Callable[[], Batch]:
    def batch() -> Batch:
        import torch

        layout = torch.channels_last if channels_last else torch.contiguous_format
        return {"x": torch.randn(number, 3, 224, 224).contiguous(memory_format=layout)}

    return batch


def _ids(rows: int, length: int, vocabulary: int, *more: str) -> Callable[[], Batch]:
    def batch() -> Batch:
        import torch

        return {name: torch.randint(2, vocabulary, (rows, length)) for name in ("input_ids", *more)}

    return batch


def _spectrogram() -> Batch:
    import torch

    return {"input_features": torch.randn(8, 80, 3000), "decoder_input_ids": torch.randint(2, 50000, (8, 128))}


def _labelled(output: Any, batch: Batch) -> Any:
    import torch

    logits = output if isinstance(output, torch.Tensor) else output.logits
    labels = torch.arange(logits.shape[0], device=logits.device) % logits.shape[-1]
    return torch.nn.functional.cross_entropy(logits, labels)


def _own(output: Any, batch: Batch) -> Any:
    return output.loss


def _mean(output: Any, batch: Batch) -> Any:
    value = output[0] if isinstance(output, (tuple, list)) else output
    return (value if hasattr(value, "float") else value.last_hidden_state).float().square().mean()


def _recurrent(kind: str, **options: Any) -> Callable[[], Any]:
    def make() -> Any:
        import torch

        return getattr(torch.nn, kind)(512, 512, 2, batch_first=True, **options)

    return make


def _sequences() -> Batch:
    import torch

    return {"input": torch.randn(32, 128, 512)}


def _perceptron() -> Any:
    from torch import nn

    layers = [layer for _ in range(16) for layer in (nn.Linear(512, 512), nn.ReLU(), nn.Dropout(0.1))]
    return nn.Sequential(*layers, nn.Linear(512, 10))


def _rows() -> Batch:
    import torch

    return {"input": torch.randn(256, 512)}


def _unet() -> Any:
    import torch
    from torch import nn

    def block(given: int, made: int) -> Any:
        half = [nn.Conv2d(given, made, 3, padding=1), nn.GroupNorm(8, made), nn.SiLU()]
        return nn.Sequential(*half, nn.Conv2d(made, made, 3, padding=1), nn.GroupNorm(8, made), nn.SiLU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            widths = (64, 128, 256, 512)
            self.first = nn.Conv2d(3, 64, 3, padding=1)
            self.down = nn.ModuleList(block(a, b) for a, b in zip((64, *widths), widths, strict=False))
            self.up = nn.ModuleList(block(2 * w, w // 2) for w in reversed(widths))
            self.wide = nn.ModuleList(nn.ConvTranspose2d(w, w, 2, 2) for w in reversed(widths))
            self.last = nn.Conv2d(32, 3, 1)

        def forward(self, x: Any) -> Any:
            x, kept = self.first(x), []
            for down in self.down:
                x = down(x)
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            for up, wide in zip(self.up, self.wide, strict=True):
                x = up(torch.cat([wide(x), kept.pop()], 1))
            return self.last(x)

    return UNet()


_LLAMA = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 16, "num_attention_heads": 16}
_LLAMA |= {"num_key_value_heads": 8, "vocab_size": 32000, "use_cache": False}
_SMALL = {"num_hidden_layers": 6, "hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12}


def zoo() -> dict[str, Model]:
    """By name."""
    t5 = _text(
        "T5ForConditionalGeneration",
        "T5Config",
        d_model=512,
        d_ff=2048,
        num_layers=6,
        num_heads=8,
        decoder_start_token_id=0,
    )
    llama = _text("LlamaForCausalLM", "LlamaConfig", **_LLAMA)
    qwen = _text("Qwen2ForCausalLM", "Qwen2Config", **_LLAMA)
    gpt_neox = _text("GPTNeoXForCausalLM", "GPTNeoXConfig", vocab_size=32000, **_SMALL)
    roberta = _text("RobertaForMaskedLM", "RobertaConfig", **_SMALL)
    heads = {"encoder_attention_heads": 8, "decoder_attention_heads": 8}
    whisper = _text("WhisperModel", "WhisperConfig", d_model=512, encoder_layers=6, decoder_layers=6, **heads)
    mixtral = _text("MixtralForCausalLM", "MixtralConfig", **{**_LLAMA, "num_hidden_layers": 4, "num_local_experts": 4})
    return {
        "ConvNeXt-T training, 64": Model(_vision("convnext_tiny"), _images(64), _labelled),
        "ConvNeXt-T, channels last": Model(_vision("convnext_tiny"), _images(64, True), _labelled),
        "ViT-B/16 training, 64": Model(_vision("vit_b_16"), _images(64), _labelled),
        "MobileNetV3-L training, 128": Model(_vision("mobilenet_v3_large"), _images(128), _labelled),
        "EfficientNet-B0 training, 64": Model(_vision("efficientnet_b0"), _images(64), _labelled),
        "ResNet-18 training, 64, fp32": Model(_vision("resnet18"), _images(64), _labelled, False),
        "DenseNet-121 training, 32": Model(_vision("densenet121"), _images(32), _labelled),
        "RegNetY-1.6 training, 64": Model(_vision("regnet_y_1_6gf"), _images(64), _labelled),
        "Swin-T training, 64": Model(_vision("swin_t"), _images(64), _labelled),
        "UNet training, 16": Model(_unet, _images(16), _mean),
        "T5-small training, 8 x 256": Model(t5, _ids(8, 256, 32000, "labels"), _own),
        "Llama 0.3B training, 4 x 1024": Model(llama, _ids(4, 1024, 32000, "labels"), _own),
        "Qwen2 0.3B inference, 4 x 512": Model(qwen, _ids(4, 512, 32000)),
        "GPT-NeoX training, 8 x 512": Model(gpt_neox, _ids(8, 512, 32000, "labels"), _own),
        "RoBERTa training, 16 x 256": Model(roberta, _ids(16, 256, 30000, "labels"), _own),
        "Whisper training, 8": Model(whisper, _spectrogram, _mean),
        "Mixtral training, 4 x 512": Model(mixtral, _ids(4, 512, 32000, "labels"), _own),
        "LSTM training, 32 x 128, fp32": Model(_recurrent("LSTM"), _sequences, _mean, False),
        "GRU, bidirectional, bf16": Model(_recurrent("GRU", bidirectional=True), _sequences, _mean),
        "Perceptron training, 256": Model(_perceptron, _rows, _labelled, False),
    }
