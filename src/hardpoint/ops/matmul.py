"""Matrix products."""

from hardpoint.ops import Op, Overload, custom_op

OPS = (
    custom_op("matmul(self, mat2)", "out = self @ mat2, two matrices or two batches of matrices", "mm bmm"),
    custom_op(
        "addmm(self, mat1, mat2; beta, alpha)",
        "out = beta * self + alpha * (mat1 @ mat2), matrices or batches of matrices; self is None if beta is 0",
        "addmm _addmm_activation baddbmm addmv addbmm addbmm.out addbmm_",
    ),
    Op(
        "dot",
        "custom",
        ("self", "tensor"),
        "out = dot product of two vectors",
        {"dot": Overload(extra_arguments=("false",)), "vdot": Overload(extra_arguments=("true",))},
    ),
)
