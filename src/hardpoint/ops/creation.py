"""Fills, sequences and copies."""

from hardpoint.ops import Op, Overload, custom_op

OPS = (
    Op(
        "fill",
        "custom",
        (),
        "out = value",
        {
            "fill_.Scalar": Overload(("value",)),
            "fill_.Tensor": Overload(("value",), host=("value",)),
            "zero_": Overload((0,)),
        },
        attributes=("value",),
    ),
    Op("copy", "copy", ("src",), "out = src, with any strides and dtype conversion", expression="src"),
    custom_op("arange(; start, step)", "out = start, start + step, start + 2 step, ...", "arange.start_out"),
    custom_op("range(; start, step)", "the same, including the end", "range.out"),
    custom_op("linspace(; start, end)", "out = evenly spaced numbers from start to end", "linspace.out"),
    custom_op(
        "logspace(; start, end, base)",
        "out = base to the power of evenly spaced numbers from start to end",
        "logspace.out",
    ),
    custom_op("eye()", "out = ones on the diagonal of a matrix, zeros elsewhere", "eye.out eye.m_out"),
    custom_op("complex(real, imag)", "out = real + i imag", "complex.out"),
)
