"""Variance, standard deviation and mean along dimensions."""

from hardpoint.ops import Op, custom_op


def moments(name: str, doc: str, aten: str) -> Op:
    """The divisor is the number of elements minus ``correction``."""
    return custom_op(f"{name}(self; dims, correction, keepdim)", doc, aten)


OPS = (
    moments("var", "the variance", "var.correction var.correction_out"),
    moments("std", "the standard deviation", "std.correction std.correction_out"),
    moments("var_mean", "out, mean = the variance and the mean", "var_mean.correction"),
    moments("std_mean", "out, mean = the standard deviation and the mean", "std_mean.correction"),
)
