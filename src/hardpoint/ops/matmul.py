"""Matrix products."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "matmul",
        "matmul",
        ("self", "mat2"),
        "out = self @ mat2, two matrices or two batches of matrices",
        {"mm": Overload(), "bmm": Overload()},
    ),
)
