"""Order: sorting, and what is found by it."""

from hardpoint.ops import Op, Overload


def order(name: str, doc: str, *aten: str, attributes: tuple[str, ...]) -> Op:
    """``places`` says where in the row an element was. A NaN counts as larger than any number."""
    overloads = dict.fromkeys(aten, Overload())
    return Op(name, "custom", ("self",), doc, overloads, attributes=attributes)


OPS = (
    order("sort", "out, places = sorted along a dimension", "sort.stable", attributes=("dim", "descending", "stable")),
    order("topk", "out, places = the k first of the order", "topk", attributes=("k", "dim", "largest", "sorted")),
    order("kthvalue", "out, places = the k-th smallest", "kthvalue.values", attributes=("k", "dim", "keepdim")),
    order(
        "median",
        "out, places = the lower median, NaN if there is one",
        *("median", "median.dim_values"),
        attributes=("dim", "keepdim"),
    ),
    order(
        "nanmedian",
        "out, places = the lower median of what is not NaN",
        *("nanmedian", "nanmedian.dim_values"),
        attributes=("dim", "keepdim"),
    ),
    order(
        "mode",
        "out, places = the most frequent, of equals the smallest",
        *("mode", "mode.values"),
        attributes=("dim", "keepdim"),
    ),
)
