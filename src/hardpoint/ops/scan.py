"""Running totals and extremes along a dimension."""

from hardpoint.ops import Op, Overload


def scan(name: str, doc: str, *aten: str) -> Op:
    """One result for each element, of it and all before it."""
    return Op(name, "custom", ("self",), doc, dict.fromkeys(aten, Overload()), attributes=("dim",))


OPS = (
    scan("cumsum", "the sum so far", "cumsum"),
    scan("cumprod", "the product so far", "cumprod"),
    scan("logcumsumexp", "log(the sum of exp(self) so far)", "_logcumsumexp", "_logcumsumexp.out"),
    scan("cummax", "out, places = the largest so far and its last place; after a NaN, NaN", "_cummax_helper"),
    scan("cummin", "out, places = the smallest so far and its last place; after a NaN, NaN", "_cummin_helper"),
)
