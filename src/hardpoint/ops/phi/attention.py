"""Flash attention, which Paddle implements for GPUs only."""

from hardpoint.ops.phi import PLAIN, Kernels, Signature

KERNELS: Kernels = {
    "attention": {"memory_efficient_attention": PLAIN},
    "attention_backward": {"memory_efficient_attention_grad": PLAIN},
}

INPUTS = ("query", "key", "value", "bias?", "cu_seqlens_q?", "cu_seqlens_k?")
ATTRIBUTES = {
    **{"max_seqlen_q": "SCALAR", "max_seqlen_k": "SCALAR"},
    **{"causal": "BOOL", "dropout_p": "FLOAT64", "scale": "FLOAT32"},
}
SAVED = ("output", "logsumexp", "seed_and_offset")

SIGNATURES = {
    "memory_efficient_attention": Signature(
        (*INPUTS, "causal_diagonal?", "seqlen_k?"), {**ATTRIBUTES, "is_test": "BOOL"}, SAVED
    ),
    "memory_efficient_attention_grad": Signature(
        (*INPUTS, *SAVED, "output_grad"), ATTRIBUTES, ("query_grad", "key_grad", "value_grad", "bias_grad")
    ),
}
