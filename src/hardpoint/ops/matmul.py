"""Matrix products."""

from hardpoint.ops import Op, Overload, custom_op

OPS = (
    custom_op("matmul(self, mat2)", "out = self @ mat2, two matrices or two batches of matrices", "mm bmm"),
    custom_op(
        "addmm(self, mat1, mat2; beta, alpha)",
        "out = beta * self + alpha * (mat1 @ mat2), matrices or batches of matrices; self is None if beta is 0",
        "addmm _addmm_activation baddbmm addmv addbmm addbmm.out addbmm_",
    ),
    custom_op(
        "wide_matmul(self, mat2)",
        "out = self @ mat2 in a wider dtype: int32 for int8, float32 for 16-bit floats",
        "_int_mm _int_mm.out mm.dtype mm.dtype_out bmm.dtype bmm.dtype_out",
    ),
    Op(
        "dot",
        "custom",
        ("self", "tensor"),
        "out = dot product of two vectors",
        {"dot": Overload(extra_arguments=("false",)), "vdot": Overload(extra_arguments=("true",))},
    ),
)
