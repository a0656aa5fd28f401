"""Fills, sequences and copies."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "fill",
        "custom",
        (),
        "out = value everywhere",
        {
            "fill_.Scalar": Overload(("value",)),
            "fill_.Tensor": Overload(("value",), host=("value",)),
            "zero_": Overload((0,)),
        },
        attributes=("value",),
    ),
    Op("copy", "copy", ("src",), "out = src, with any strides and dtype conversion", expression="src"),
    Op(
        "arange",
        "custom",
        (),
        "out = start, start + step, start + 2 step, ...",
        {"arange.start_out": Overload()},
        attributes=("start", "step"),
    ),
    Op(
        "range",
        "custom",
        (),
        "the same, with the end taken in",
        {"range.out": Overload()},
        attributes=("start", "step"),
    ),
    Op(
        "linspace",
        "custom",
        (),
        "out = evenly spaced numbers from start to end",
        {"linspace.out": Overload()},
        attributes=("start", "end"),
    ),
    Op(
        "logspace",
        "custom",
        (),
        "out = base to the power of evenly spaced numbers from start to end",
        {"logspace.out": Overload()},
        attributes=("start", "end", "base"),
    ),
    Op(
        "eye",
        "custom",
        (),
        "out = ones on the diagonal of a matrix, zeros elsewhere",
        {"eye.out": Overload(), "eye.m_out": Overload()},
    ),
    Op(
        "complex",
        "custom",
        ("real", "imag"),
        "out = real + i imag",
        {"complex.out": Overload()},
    ),
)
