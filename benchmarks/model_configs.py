"""Models with random weights that several benchmarks share. transformers is imported on first use."""

from __future__ import annotations

from typing import Any


def gpt2(width: int, vocabulary: int, **options: Any) -> Any:
    import transformers

    options = {"bos_token_id": 0, "eos_token_id": 0, "n_positions": 128, "n_layer": 4, "n_head": 4, **options}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=vocabulary, n_embd=width, **options))


def llama(width: int, intermediate: int, vocabulary: int, layers: int, heads: int, kv_heads: int, **more: Any) -> Any:
    import transformers

    sizes = {"hidden_size": width, "intermediate_size": intermediate, "vocab_size": vocabulary}
    counts = {"num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **counts, use_cache=False, **more))


def resnet18(width: int, labels: int) -> Any:
    import transformers

    sizes = [width * k for k in (1, 2, 4, 8)]
    config = transformers.ResNetConfig(
        embedding_size=width, hidden_sizes=sizes, depths=[2, 2, 2, 2], layer_type="basic", num_labels=labels
    )
    return transformers.ResNetForImageClassification(config)
