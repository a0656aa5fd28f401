"""What a conformance run knows about PyTorch's entries by name, as data: each exception with its reason."""

from __future__ import annotations

#: Entries that make no sense on a dense strided device, and why.
NOT_TESTED: dict[str, str] = {
    "sparse.sampled_addmm": "takes a sparse tensor",
    "sparse.mm.reduce": "takes a sparse tensor",
    "to_sparse": "makes a sparse tensor",
    "jiterator_unary": "CUDA source code is its argument",
    "jiterator_binary": "CUDA source code is its argument",
    "jiterator_4inputs_with_extra_args": "CUDA source code is its argument",
    "jiterator_binary_return_by_ref": "CUDA source code is its argument",
    "jiterator_2inputs_2outputs": "CUDA source code is its argument",
    "torch._scaled_mm": "its samples are float8 only",
    "torch._scaled_mm_v2": "its samples are float8 only",
    "torch.ops.aten._flash_attention_forward": "an internal kernel of the CUDA device",
    "torch.ops.aten._efficient_attention_forward": "an internal kernel of the CUDA device",
    "bmm.triton_optimized": "an internal kernel of the CUDA device",
    "broadcast_shapes": "touches no tensor",
}

#: Entries whose result is memory that nobody wrote: shape, strides and dtype are compared, values are not.
UNWRITTEN: dict[str, str] = {
    "empty": "uninitialised",
    "empty_like": "uninitialised",
    "empty_strided": "uninitialised",
    "empty_permuted": "uninitialised",
    "new_empty": "uninitialised",
    "new_empty_strided": "uninitialised",
    "resize_": "elements beyond the old size are uninitialised",
    "resize_as_": "elements beyond the old size are uninitialised",
}

#: Entries that draw random numbers. ``drawn``: the values come from the generator, and their distribution is compared;
#: ``mixed``: the result depends on random numbers in a way that no distribution sums up, such as whole channels that
#: are dropped together.
RANDOM: dict[str, str] = {
    "bernoulli": "drawn",
    "cauchy": "drawn",
    "exponential": "drawn",
    "geometric": "drawn",
    "log_normal": "drawn",
    "multinomial": "drawn",
    "normal": "drawn",
    "normal.in_place": "drawn",
    "normal.number_mean": "drawn",
    "uniform": "drawn",
    "rand_like": "drawn",
    "randint": "drawn",
    "randint_like": "drawn",
    "randn": "drawn",
    "randn_like": "drawn",
    "nn.functional.dropout": "drawn",
    "nn.functional.dropout2d": "mixed",
    "nn.functional.dropout3d": "mixed",
    "nn.functional.alpha_dropout": "drawn",
    "nn.functional.feature_alpha_dropout.with_train": "mixed",
    "nn.functional.rrelu": "drawn",
    "nn.functional.fractional_max_pool2d": "mixed",
    "nn.functional.fractional_max_pool3d": "mixed",
    "pca_lowrank": "mixed",
    "svd_lowrank": "mixed",
}

#: Entries whose result is unique only up to a sign, a phase or an order: compared after the sample's own processing,
#: which takes absolute values or projects the freedom away.
AMBIGUOUS: dict[str, str] = {
    "svd": "sign of the singular vectors",
    "linalg.svd": "sign of the singular vectors",
    "linalg.eig": "phase of the eigenvectors",
    "linalg.eigh": "phase of the eigenvectors",
    "pca_lowrank": "sign of the singular vectors",
    "svd_lowrank": "sign of the singular vectors",
}

#: Entries that may choose among equal elements, with the position of ``dim`` among the arguments after the input
#: (None: the flattened input). Indices that differ are right if they lead to equal elements.
TIES: dict[str, int | None] = {
    "argmax": 0,
    "argmin": 0,
    "argsort": 0,
    "sort": 0,
    "topk": 1,
    "kthvalue": 1,
    "mode": 0,
    "median": 0,
    "nanmedian": 0,
    "max.reduction_with_dim": 0,
    "min.reduction_with_dim": 0,
    "cummax": 0,
    "cummin": 0,
}

#: Entries with arguments that torch wants on the CPU whatever the device: their positions after the input.
ON_THE_CPU: dict[str, tuple[int, ...]] = {"tensor_split": (0,)}

#: Entries whose result is one number of the dtype and no other: a neighbour is wrong, and a wider dtype says nothing.
EXACT = frozenset({"nextafter"})

#: Keyword arguments of a sample that make any entry random when they are not 0.
RANDOM_ARGUMENTS = ("dropout_p",)

#: Where torch's own result is wrong for extreme values, and how.
NO_EXTREME_VALUES: dict[tuple[str, str], str] = {
    ("fmod", "float64"): "torch's vectorised fmod gives nan for the largest number and 0.5",
    ("remainder", "float64"): "torch's vectorised fmod gives nan for the largest number and 0.5",
    ("__rmod__", "float64"): "torch's vectorised fmod gives nan for the largest number and 0.5",
}

#: Modules that draw random numbers while they train: compared in evaluation mode only.
RANDOM_MODULES = frozenset(
    {
        "nn.Dropout",
        "nn.Dropout1d",
        "nn.Dropout2d",
        "nn.Dropout3d",
        "nn.AlphaDropout",
        "nn.FeatureAlphaDropout",
        "nn.RReLU",
        "nn.FractionalMaxPool2d",
        "nn.FractionalMaxPool3d",
        "nn.Transformer",
        "nn.TransformerEncoder",
        "nn.TransformerEncoderLayer",
        "nn.TransformerDecoderLayer",
    }
)

#: Modules and optimizers that are left out, and why.
MODULES_NOT_TESTED: dict[str, str] = {}
OPTIMIZERS_NOT_TESTED: dict[str, str] = {"SparseAdam": "takes sparse gradients only"}

#: Dtypes of a run, where the entry supports them on the CPU.
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "complex64")
#: What an optimizer's own way of computing allows, whatever the dtype of its parameters: relative, absolute.
OPTIMIZER_TOLERANCES: dict[str, tuple[float, float]] = {
    # Orthogonalises in bfloat16, and takes a step of a thousandth of that.
    "Muon": (1e-3, 1e-5),
}
