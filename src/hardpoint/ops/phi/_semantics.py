"""Facts about Paddle kernels for comparing results, also for kernels that map to no standard operator."""

#: Random kernels: their distributions are compared. Equal values pass, for kernels with randomness switched off.
RANDOM = frozenset(
    {
        *("gaussian", "gaussian_inplace", "truncated_gaussian_random", "uniform", "uniform_inplace", "randint"),
        *("exponential", "bernoulli", "binomial", "multinomial", "poisson", "standard_gamma", "dirichlet"),
        *("randperm", "dropout", "dropout_nd", "rrelu", "gumbel_softmax"),
        *("class_center_sample", "random_routing", "shuffle_batch"),
    }
)

#: Kernels that may return any of several equal elements: different indices are correct if they select equal elements.
TIE_BREAKING = frozenset(
    {"argmax", "argmin", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian", "cummax", "cummin"}
)

#: Positions, among the requested outputs, of outputs with private contents.
PRIVATE_OUTPUTS = {
    "batch_norm": (5,),  # cuDNN workspace for the gradient
    "batch_norm_infer": (1, 2),  # the CPU does not write the statistics
    "reshape": (1,),  # XShape: only its shape is meaningful
    "squeeze": (1,),
    "unsqueeze": (1,),
    "flatten": (1,),
    "transpose": (1,),
}

#: Kernels whose results are unique only up to sign, phase or order.
NOT_UNIQUE = frozenset({"svd", "eig", "eigh", "qr", "lu"})

#: Kernels and dtypes for which the CPU computes at least partly in single precision.
SINGLE_PRECISION = frozenset(
    {
        *((name, "complex128") for name in ("exp", "sigmoid", "silu")),
        *((f"{name}_interp", "float64") for name in ("linear", "bilinear", "bicubic", "trilinear")),
        *((f"{name}_interp_grad", "float64") for name in ("linear", "bilinear", "bicubic", "trilinear")),
    }
)

#: Kernels that pass data from forward to backward in a device-specific format.
OWN_FORMAT = frozenset({"rnn", "rnn_grad"})

#: Kernels with uninitialized results.
UNDEFINED = frozenset({"empty", "empty_like"})
