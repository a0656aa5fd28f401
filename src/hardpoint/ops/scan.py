"""Cumulative operators along a dimension."""

from hardpoint.ops import Op, custom_op


def scan(name: str, doc: str, aten: str) -> Op:
    """A cumulative operator."""
    return custom_op(f"{name}(self; dim)", doc, aten)


OPS = (
    scan("cumsum", "cumulative sum", "cumsum"),
    scan("cumprod", "cumulative product", "cumprod"),
    scan("logcumsumexp", "log of the cumulative sum of exp(self)", "_logcumsumexp _logcumsumexp.out"),
    scan("cummax", "out, indices = cumulative maximum and its last index; NaN propagates", "_cummax_helper"),
    scan("cummin", "out, indices = cumulative minimum and its last index; NaN propagates", "_cummin_helper"),
)
