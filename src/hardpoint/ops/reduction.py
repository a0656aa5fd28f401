"""Reductions over some dimensions."""

from hardpoint.ops import Op, Reduction, custom_op

#: How kernels combine elements. Operators may share a rule, and may have several.
RULES = {
    "sum": Reduction("0", "acc + x"),
    "mean": Reduction("0", "acc + x", finish="acc / (A)count"),
    "nansum": Reduction("0", "acc + x", map="x == x ? (A)x : (A)0"),
    "prod": Reduction("1", "acc * x"),
    "amax": Reduction("A_LOWEST", "MAXIMUM(acc, x)"),
    "amin": Reduction("A_HIGHEST", "MINIMUM(acc, x)"),
    "any": Reduction("0", "acc | x", map="x != 0"),
    "all": Reduction("1", "acc & x", map="x != 0"),
    "norm_0": Reduction("0", "acc + x", map="x != 0"),
    "norm_1": Reduction("0", "acc + x", map="M(abs)((A)x)"),
    "norm_2": Reduction("0", "acc + x", map="(A)x * (A)x", finish="M(sqrt)(acc)"),
    "norm_p": Reduction("0", "acc + x", map="M(pow)(M(abs)((A)x), p)", finish="M(pow)(acc, 1 / p)"),
    "norm_highest": Reduction("0", "MAXIMUM(acc, x)", map="M(abs)((A)x)"),
    "norm_lowest": Reduction("A_HIGHEST", "MINIMUM(acc, x)", map="M(abs)((A)x)"),
}


def reduction(name: str, doc: str, aten: str) -> Op:
    """A reduction over the dimensions in ``dims``."""
    return custom_op(f"{name}(self; dims, keepdim)", doc, aten)


OPS = (
    reduction("sum", "the sum", "sum.dim_IntList"),
    reduction("nansum", "sum, ignoring NaN", "nansum nansum.out"),
    reduction("mean", "the mean", "mean.dim"),
    reduction("prod", "the product", "prod.dim_int prod"),
    reduction("amax", "maximum, propagating NaN", "amax max max.unary_out"),
    reduction("amin", "minimum, propagating NaN", "amin min min.unary_out"),
    reduction("any", "whether any element is nonzero", "any any.dim any.dims"),
    reduction("all", "whether all elements are nonzero", "all all.dim all.dims"),
    custom_op(
        "vector_norm(self; ord, dims, keepdim)",
        "(sum of abs(self)^ord)^(1/ord)",
        "linalg_vector_norm norm.ScalarOpt_dim norm.ScalarOpt_dim_dtype",
    ),
    custom_op(
        "aminmax(self; dims, keepdim)",
        "out, largest = the smallest and the largest element",
        "aminmax _aminmax _aminmax.dim",
    ),
    custom_op("equal(self, other)", "out = whether all elements are equal", "equal"),
    custom_op("trace(self)", "sum of the diagonal of a matrix", "trace"),
)
