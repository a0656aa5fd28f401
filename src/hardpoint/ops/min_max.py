"""Maximum or minimum along a dimension, with its index."""

from hardpoint.ops import Op, custom_op


def extreme(name: str, doc: str, aten: str) -> Op:
    """The first of equal elements wins; NaN compares as the most extreme value."""
    return custom_op(f"{name}(self; dim, keepdim)", doc, aten)


OPS = (
    extreme("argmax", "out = index of the maximum; of the flattened tensor without dimensions", "argmax"),
    extreme("argmin", "out = index of the minimum; of the flattened tensor without dimensions", "argmin"),
    extreme("max_dim", "out, indices = maximum along a dimension and its index", "max.dim"),
    extreme("min_dim", "out, indices = minimum along a dimension and its index", "min.dim"),
)
