"""Reductions: one output element from all input elements along some dimensions."""

from hardpoint.ops import Op, Overload, Reduction


def reduction(name: str, doc: str, rule: Reduction, *aten: str) -> Op:
    """A reduction over the dimensions that the overload's ``dim`` names."""
    return Op(name, "reduction", ("self",), doc, dict.fromkeys(aten, Overload()), reduction=rule)


OPS = (
    reduction("sum", "the sum", Reduction("0", "acc + x"), "sum.dim_IntList"),
    reduction("mean", "the mean", Reduction("0", "acc + x", "acc / (T)count", ("float",)), "mean.dim"),
    reduction("prod", "the product", Reduction("1", "acc * x"), "prod.dim_int"),
    reduction(
        "amax",
        "the largest element, NaN if there is one",
        Reduction("x", {"float": "M(maximum)(acc, x)", "int": "acc > x ? acc : x", "bool": "acc | x"}),
        "amax",
    ),
    reduction(
        "amin",
        "the smallest element, NaN if there is one",
        Reduction("x", {"float": "M(minimum)(acc, x)", "int": "acc < x ? acc : x", "bool": "acc & x"}),
        "amin",
    ),
    reduction("any", "whether one is not zero", Reduction("0", "acc != 0 || x != 0"), "any", "any.dim", "any.dims"),
    reduction("all", "whether none is zero", Reduction("1", "acc != 0 && x != 0"), "all", "all.dim", "all.dims"),
)
