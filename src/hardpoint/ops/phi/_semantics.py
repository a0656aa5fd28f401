"""What a comparison of Paddle's kernels must know of them. Not only of those that map onto standard operators."""

#: Kernels that draw: equal are their distributions. Where an attribute may switch that off, equal values pass.
RANDOM = frozenset(
    {
        *(
            "gaussian",
            "gaussian_inplace",
            "uniform",
            "uniform_inplace",
            "randint",
            "exponential",
            "bernoulli",
            "poisson",
        ),
        *(
            "standard_gamma",
            "binomial",
            "randperm",
            "multinomial",
            "truncated_gaussian_random",
            "dropout",
            "dropout_nd",
        ),
        *("rrelu", "class_center_sample", "dirichlet", "gumbel_softmax", "random_routing", "shuffle_batch"),
    }
)

#: Kernels that may choose among equal elements: indices that differ are right if they lead to equal ones.
CHOICES = frozenset(
    {"argmax", "argmin", "argsort", "topk", "kthvalue", "mode", "median", "nanmedian", "cummax", "cummin"}
)

#: Outputs without a meaning of their own: their positions among those that are wanted.
PRIVATE_OUTPUTS = {
    "batch_norm": (5,),  # memory that cuDNN keeps for its gradient
    "reshape": (1,),  # of the input's shape alone
    "squeeze": (1,),
    "unsqueeze": (1,),
    "flatten": (1,),
    "transpose": (1,),
}

#: Results that are unique only up to a sign, a phase or an order.
NOT_UNIQUE = frozenset({"svd", "eig", "eigh", "qr", "lu"})

#: Memory that the kernel leaves as it was.
UNDEFINED = frozenset({"empty", "empty_like"})
