"""Special cases among PyTorch's database entries, each with its reason."""

from __future__ import annotations

import re

_CUDA_SOURCE = ("unary", "binary", "4inputs_with_extra_args", "binary_return_by_ref", "2inputs_2outputs")

_ORDERS = ("j0", "j1", "y0", "y1", "i0", "i1", "k0", "k1")

#: Entries that do not apply to a dense strided device.
NOT_TESTED: dict[str, str] = {
    "sparse.sampled_addmm": "takes a sparse tensor",
    "sparse.mm.reduce": "takes a sparse tensor",
    "to_sparse": "makes a sparse tensor",
    **{f"jiterator_{name}": "takes CUDA source code" for name in _CUDA_SOURCE},
    "torch._scaled_mm": "has float8 samples only",
    "torch._scaled_mm_v2": "has float8 samples only",
    "torch.ops.aten._flash_attention_forward": "an internal kernel of the CUDA device",
    "torch.ops.aten._efficient_attention_forward": "an internal kernel of the CUDA device",
    "bmm.triton_optimized": "an internal kernel of the CUDA device",
    "broadcast_shapes": "touches no tensor",
}

#: Entries with uninitialized results: only shape, strides and dtype are compared.
UNWRITTEN = frozenset(
    (
        *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
        *("resize_", "resize_as_"),  # elements beyond the old size
    )
)

#: Random entries whose values are compared by distribution.
DRAWN = frozenset(
    (
        *("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "multinomial", "uniform"),
        *("normal", "normal.in_place", "normal.number_mean"),
        *("rand_like", "randint", "randint_like", "randn", "randn_like"),
        *("nn.functional.dropout", "nn.functional.alpha_dropout", "nn.functional.rrelu"),
    )
)
#: All random entries. The other values have no simple distribution, for example because whole channels are dropped:
#: only metadata and seeding are checked.
RANDOM = DRAWN | {
    *("nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout.with_train"),
    *("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "pca_lowrank", "svd_lowrank"),
}

#: Entries whose result is unique only up to sign, phase or order: compared after the sample's output processing, which
#: removes the ambiguity.
AMBIGUOUS = frozenset(("svd", "linalg.svd", "linalg.eig", "linalg.eigh", "pca_lowrank", "svd_lowrank"))

#: Entries that may return any of several equal elements -> the position of ``dim`` among the arguments after the input.
#: Different indices are correct if they select equal elements.
TIES: dict[str, int] = {
    **dict.fromkeys(("argmax", "argmin", "argsort", "sort", "mode", "median", "nanmedian", "cummax", "cummin"), 0),
    **dict.fromkeys(("max.reduction_with_dim", "min.reduction_with_dim"), 0),
    **dict.fromkeys(("topk", "kthvalue"), 1),
}

#: Entries that flatten their input if no ``dim`` is given.
FLATTENED = ("argmax", "argmin")

#: Conversions to integers, which are undefined for numbers out of range.
TO_INTEGERS = ("byte", "char", "short", "int", "long")

#: Positions, after the input, of arguments that torch requires on the CPU.
ON_THE_CPU: dict[str, tuple[int, ...]] = {"tensor_split": (0,)}

#: Entries that must be bit-exact; a wider dtype is no reference for them.
EXACT = frozenset({"nextafter"})

#: Entries on elements that PyTorch's database does not mark as such.
ELEMENTWISE = frozenset(
    (
        *(
            "nn.functional.gelu",
            "nn.functional.silu",
            "nn.functional.mish",
            "nn.functional.hardswish",
            "nn.functional.elu",
        ),
        *("nn.functional.selu", "nn.functional.celu", "nn.functional.softplus", "nn.functional.leaky_relu"),
        *("nn.functional.hardsigmoid", "nn.functional.hardtanh", "nn.functional.relu6", "nn.functional.tanhshrink"),
    )
)

#: Entries on matrices that must not have equal rows, as grown samples do: their results are then arbitrary.
FACTORIZATIONS = re.compile(
    r"(^|[._])(lu|qr|svd|svdvals|inv|pinv|eig|eigh|eigvals|eigvalsh|det|slogdet|logdet|cond|lstsq|cholesky|ormqr|geqrf|pinverse)"
    r"($|[._])|solve|_ex$|cholesky|inverse|matrix_rank|matrix_exp|householder|ldl|tensorinv|lu_|lobpcg"
)

#: Entries on elements whose float64 result or gradient has fewer digits on the CPU, which uses float32 constants or
#: short series.
INEXACT_DOUBLES = frozenset(
    (
        *("nn.functional.hardsigmoid", "nn.functional.hardswish", "digamma", "lgamma", "special.airy_ai"),
        *(f"polygamma.polygamma_n_{n}" for n in range(5)),
        *("special.polygamma.special_polygamma_n_0", "special.zeta"),
        *(
            f"special.{kind}_{order}"
            for kind in ("bessel", "modified_bessel", "scaled_modified_bessel")
            for order in _ORDERS
        ),
        *(f"mvlgamma.mvlgamma_p_{p}" for p in (1, 3, 5)),
    )
)

#: Entries that must subtract the maximum before they take exponentials.
EXPONENTIALS = (
    "softmax",
    "softmax.with_dtype",
    "log_softmax",
    "log_softmax.with_dtype",
    "logsumexp",
    "nn.functional.softmin",
)

#: Entries whose arguments depend on each other's values, so that samples cannot be grown.
NOT_GROWN: dict[str, str] = {
    "nn.functional.embedding_bag": "offsets must ascend",
    "searchsorted": "the first tensor must be sorted",
    "bucketize": "boundaries must be sorted",
    "segment_reduce.lengths": "lengths must add up to the size",
    "segment_reduce.offsets": "offsets must ascend",
    "nn.functional.ctc_loss": "lengths must not exceed the sizes",
    "nn.functional.multilabel_margin_loss": "adds the square of as many terms, whose rounding depends on the order",
    **dict.fromkeys(("cumprod", "masked.cumprod"), "long products overflow at different elements"),
    "norm.nuc": "equal rows make the gradient arbitrary",
    "index_reduce": "the many equal indices round in another order",
}

#: Entries that torch documents as nondeterministic on some devices: they add into a result in any order.
NONDETERMINISTIC = frozenset(
    (
        *("index_add", "index_put", "index_copy", "index_reduce.mean", "index_reduce.prod", "index_reduce.amax"),
        *(
            "scatter",
            "scatter_add",
            "put",
            "bincount",
            "histc",
            "cumsum",
            "kthvalue",
            "median",
            "nn.functional.ctc_loss",
        ),
        *(f"scatter_reduce.{how}" for how in ("sum", "prod", "mean", "amax", "amin")),
        *("_unsafe_masked_index_put_accumulate", "nn.functional.embedding_bag", "index_reduce.amin"),
    )
)

#: Keyword arguments that make a sample random when nonzero.
RANDOM_ARGUMENTS = ("dropout_p",)

#: Entries and dtypes whose CPU result is wrong for extreme values: torch's vectorized fmod returns NaN for the largest
#: number and 0.5.
NO_EXTREME_VALUES = (("fmod", "float64"), ("remainder", "float64"), ("__rmod__", "float64"))

#: Modules that are random in training: compared in evaluation mode only.
RANDOM_MODULES = frozenset(
    (
        *("nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout", "nn.FeatureAlphaDropout"),
        *("nn.RReLU", "nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d"),
        *("nn.Transformer", "nn.TransformerEncoder", "nn.TransformerEncoderLayer", "nn.TransformerDecoderLayer"),
    )
)

#: Skipped optimizers.
OPTIMIZERS_NOT_TESTED: dict[str, str] = {"SparseAdam": "takes sparse gradients only"}

#: Dtypes of a run, as far as the entry supports them on the CPU.
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "complex64")
#: Relative and absolute tolerances of optimizers that compute in lower precision than their parameters.
OPTIMIZER_TOLERANCES: dict[str, tuple[float, float]] = {
    # Orthogonalizes in bfloat16 and scales the step by 1e-3.
    "Muon": (1e-3, 1e-5),
}
