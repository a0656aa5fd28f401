"""Reductions: one output element from all input elements along some dimensions."""

from hardpoint.ops import Op, Overload, Reduction

#: How kernels combine elements; several operators may share a rule, and one may have several.
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


def reduction(name: str, doc: str, *aten: str, attributes: tuple[str, ...] = ()) -> Op:
    """A reduction over the dimensions that the list ``dims`` names."""
    overloads = dict.fromkeys(aten, Overload())
    return Op(name, "custom", ("self",), doc, overloads, attributes=(*attributes, "dims", "keepdim"))


OPS = (
    reduction("sum", "the sum", "sum.dim_IntList"),
    reduction("nansum", "the sum of what is not NaN", "nansum", "nansum.out"),
    reduction("mean", "the mean", "mean.dim"),
    reduction("prod", "the product", "prod.dim_int", "prod"),
    reduction("amax", "the largest element, NaN if there is one", "amax", "max", "max.unary_out"),
    reduction("amin", "the smallest element, NaN if there is one", "amin", "min", "min.unary_out"),
    reduction("any", "whether one is not zero", "any", "any.dim", "any.dims"),
    reduction("all", "whether none is zero", "all", "all.dim", "all.dims"),
    reduction(
        "vector_norm",
        "(sum of abs(self)^ord)^(1/ord)",
        *("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.ScalarOpt_dim_dtype"),
        attributes=("ord",),
    ),
    Op(
        "aminmax",
        "custom",
        ("self",),
        "out, largest = the smallest and the largest element",
        {"aminmax": Overload(), "_aminmax": Overload(), "_aminmax.dim": Overload()},
        attributes=("dims", "keepdim"),
    ),
    Op("equal", "custom", ("self", "other"), "out = whether all elements are equal", {"equal": Overload()}),
    Op("trace", "custom", ("self",), "the sum of a matrix's diagonal", {"trace": Overload()}),
)
