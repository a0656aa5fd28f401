"""Special cases among PyTorch's database entries, each with its reason."""

from __future__ import annotations

_CUDA_SOURCE = ("unary", "binary", "4inputs_with_extra_args", "binary_return_by_ref", "2inputs_2outputs")

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
