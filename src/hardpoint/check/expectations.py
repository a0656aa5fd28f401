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
#: Those whose numbers hardly ever repeat.
CONTINUOUS = frozenset(
    (
        *("cauchy", "exponential", "log_normal", "uniform"),
        *("normal", "normal.in_place", "normal.number_mean", "rand_like", "randn", "randn_like"),
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
    **dict.fromkeys(("argsort", "sort", "mode", "median", "nanmedian", "cummax", "cummin"), 0),
    **dict.fromkeys(("topk", "kthvalue"), 1),
}

#: Entries whose result is exact but for one rounding. Kernels compute 16-bit dtypes in float32 and round to nearest.
ROUNDED_ONCE = frozenset(
    (
        *("add", "sub", "rsub", "__radd__", "__rsub__", "mul", "__rmul__", "div.no_rounding_mode", "true_divide"),
        *("sqrt", "reciprocal", "square", "to", "bfloat16", "half"),
    )
)

#: Entries whose zeros have a sign that IEEE 754 or C gives. Those that choose between equal zeros are left out.
SIGNED_ZERO = frozenset(
    (
        *("add", "sub", "rsub", "mul", "div.no_rounding_mode", "true_divide", "fmod", "square", "positive", "copysign"),
        *("abs", "neg", "sqrt", "ceil", "floor", "trunc", "round", "nextafter", "to", "bfloat16", "half", "double"),
        *("sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "expm1", "log1p", "erf", "sign"),
    )
)

#: Elementwise entries whose small results are inexact: differences of large numbers, and short series. Also those
#: whose name begins with ``special.``.
INEXACT_SMALL = frozenset(("nn.functional.tanhshrink", "igamma", "igammac", "polar", "lgamma", "digamma", "erfinv"))


def is_inexact(name: str) -> bool:
    """Whether an elementwise entry is inexact for very small and very large numbers."""
    return name in INEXACT_SMALL or name in INEXACT_DOUBLES or name.startswith(("special.", "polygamma", "mvlgamma"))


#: Entries that order integers, which float32 cannot always tell apart.
ORDERED = (
    *("sort", "argsort", "msort", "topk", "kthvalue", "median", "mode", "unique", "unique_consecutive", "isin"),
    *("amax", "amin", "aminmax", "argmax", "argmin", "max.reduction_with_dim", "min.reduction_with_dim"),
    *("max.reduction_no_dim", "min.reduction_no_dim", "cummax", "cummin"),
)

#: Entries whose results overflow for integers of full width, or that loop over their value.
NARROW_INTEGERS = frozenset(("pow", "float_power", "__rpow__", "bitwise_left_shift", "bitwise_right_shift", "ldexp"))

#: Conversions to integers, which are undefined for numbers out of range.
TO_INTEGERS = ("byte", "char", "short", "int", "long")

#: Positions, after the input, of arguments that torch requires on the CPU.
ON_THE_CPU: dict[str, tuple[int, ...]] = {"tensor_split": (0,)}

#: Entries that must be bit-exact; a wider dtype is no reference for them.
EXACT = frozenset(("nextafter", "double", "long"))

#: Elementwise entries that PyTorch's database does not mark as such.
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
        "clamp",
    )
)

#: Entries on matrices. Grown samples have equal rows, for which the results of these entries are arbitrary.
FACTORIZATIONS = re.compile(
    r"(^|[._])(lu|qr|svd|svdvals|inv|pinv|eig|eigh|eigvals|eigvalsh|det|slogdet|logdet|cond|lstsq|cholesky|ormqr|geqrf|pinverse)"
    r"($|[._])|solve|_ex$|cholesky|inverse|matrix_rank|matrix_exp|householder|ldl|tensorinv|lu_|lobpcg"
)

#: Elementwise entries whose float64 result or gradient is less precise on the CPU, which uses float32 constants or
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

#: Products of two tensors, which may be the same one.
MATRIX_PRODUCTS = ("mm", "bmm", "matmul", "dot", "vdot", "inner", "__rmatmul__", "kron", "outer")

#: Entries that subtract the mean, which must not cancel all digits.
CENTERED = (
    *("var", "std", "var_mean", "std_mean", "var.unbiased", "std.unbiased", "var_mean.unbiased", "std_mean.unbiased"),
    *("nn.functional.layer_norm", "native_layer_norm", "nn.functional.group_norm", "nn.functional.instance_norm"),
    *("nn.functional.batch_norm", "native_batch_norm"),
)

#: Entries that are not tried with NaN.
NO_NAN: dict[str, str] = {
    "mode": "NaN equals nothing, so the most frequent element depends on the algorithm",
    "nn.functional.grid_sample": "converts coordinates to integers",
    "grid_sampler_2d": "converts coordinates to integers",
    "grid_sampler_3d": "converts coordinates to integers",
    **dict.fromkeys(
        (f"nn.functional.conv_transpose{n}d" for n in (1, 2, 3)), "weights may be multiplied by zeros around the input"
    ),
}

#: Entries that are not tried with infinity.
NO_INFINITY: dict[str, str] = dict.fromkeys(
    ("var_mean", "std_mean", "native_layer_norm", "native_group_norm"), "torch's mean of infinite numbers is NaN there"
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

#: Entries that torch documents as nondeterministic on some devices, because they accumulate in any order.
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
#: Those of entries on lists, whose samples are large.
LIST_DTYPES = ("float32", "bfloat16", "int64")
#: Samples of entries on lists: a second list, numbers, a list of numbers, and a tensor.
LIST_SAMPLES = 8
#: Relative and absolute tolerances of optimizers that compute in lower precision than their parameters.
OPTIMIZER_TOLERANCES: dict[str, tuple[float, float]] = {
    # Orthogonalizes in bfloat16 and scales the step by 1e-3.
    "Muon": (1e-3, 1e-5),
}
