"""Matrix products."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "matmul",
        "custom",
        ("self", "mat2"),
        "out = self @ mat2, two matrices or two batches of matrices",
        {"mm": Overload(), "bmm": Overload()},
    ),
    Op(
        "addmm",
        "custom",
        ("self", "mat1", "mat2"),
        "out = beta * self + alpha * (mat1 @ mat2), matrices or batches of matrices; self is None where beta is 0",
        {
            "addmm": Overload(),
            "_addmm_activation": Overload(),
            "baddbmm": Overload(),
            "addmv": Overload(),
            "addbmm": Overload(),
            "addbmm.out": Overload(),
            "addbmm_": Overload(),
        },
        attributes=("beta", "alpha"),
    ),
    Op(
        "dot",
        "custom",
        ("self", "tensor"),
        "out = the inner product of two vectors",
        {"dot": Overload(more=("false",)), "vdot": Overload(more=("true",))},
    ),
)
