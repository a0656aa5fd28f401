"""Variance, standard deviation and mean along dimensions."""

from hardpoint.ops import Op, Overload


def moments(name: str, doc: str, *aten: str) -> Op:
    """The sum of squares is divided by the number of elements less ``correction``."""
    overloads = dict.fromkeys(aten, Overload())
    return Op(name, "custom", ("self",), doc, overloads, attributes=("dims", "correction", "keepdim"))


OPS = (
    moments("var", "the variance", "var.correction", "var.correction_out"),
    moments("std", "the standard deviation", "std.correction", "std.correction_out"),
    moments("var_mean", "out, mean = the variance and the mean", "var_mean.correction"),
    moments("std_mean", "out, mean = the standard deviation and the mean", "std_mean.correction"),
)
