"""Pointwise operators: one output element from the input elements at the same place."""

from hardpoint.ops import Op

OPS = (
    Op("add", "pointwise", ("self", "other"), "out = self + alpha * other", {"add.Tensor": ("alpha",)}),
    Op("mul", "pointwise", ("self", "other"), "out = self * other", {"mul.Tensor": ()}),
    Op("relu", "pointwise", ("self",), "out = max(self, 0), NaN kept", {"relu": (), "relu_": ()}),
)
