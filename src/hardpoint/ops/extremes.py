"""The largest or smallest element along a dimension, and where it is."""

from hardpoint.ops import Op, Overload


def extreme(name: str, doc: str, aten: str) -> Op:
    """Of equal elements the first counts; a NaN counts as more extreme than any number."""
    return Op(name, "custom", ("self",), doc, {aten: Overload()}, attributes=("dim", "keepdim"))


OPS = (
    extreme("argmax", "out = the place of the largest element; without dimensions, in the flattened tensor", "argmax"),
    extreme("argmin", "out = the place of the smallest element; without dimensions, in the flattened tensor", "argmin"),
    extreme("max_dim", "out, places = the largest element along a dimension, and its place", "max.dim"),
    extreme("min_dim", "out, places = the smallest element along a dimension, and its place", "min.dim"),
)
