"""Attention without the matrix of all scores, which Paddle has for GPUs alone."""

from hardpoint.ops.phi import PLAIN, Kernels, Signature

KERNELS: Kernels = {
    "attention": {"memory_efficient_attention": PLAIN},
    "attention_backward": {"memory_efficient_attention_grad": PLAIN},
}

GIVEN = ("query", "key", "value", "bias?", "cu_seqlens_q?", "cu_seqlens_k?")
NUMBERS = {
    **{"max_seqlen_q": "SCALAR", "max_seqlen_k": "SCALAR"},
    **{"causal": "BOOL", "dropout_p": "FLOAT64", "scale": "FLOAT32"},
}
KEPT = ("output", "logsumexp", "seed_and_offset")

SIGNATURES = {
    "memory_efficient_attention": Signature(
        (*GIVEN, "causal_diagonal?", "seqlen_k?"), {**NUMBERS, "is_test": "BOOL"}, KEPT
    ),
    "memory_efficient_attention_grad": Signature(
        (*GIVEN, *KEPT, "output_grad"), NUMBERS, ("query_grad", "key_grad", "value_grad", "bias_grad")
    ),
}
