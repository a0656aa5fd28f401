"""Operators that put elements elsewhere: joining, reversing, rotating, cutting windows."""

from hardpoint.ops import Op, Overload

WINDOWS = ("kernel_size", "dilation", "padding", "stride")

OPS = (
    Op(
        "cat",
        "custom",
        ("tensors",),
        "out = the tensors one after another along a dimension; each is an argument of its own",
        {"cat": Overload()},
        attributes=("dim",),
    ),
    Op(
        "flip",
        "custom",
        ("self",),
        "out = self in reverse order along dims",
        {"flip": Overload()},
        attributes=("dims",),
    ),
    Op(
        "roll",
        "custom",
        ("self",),
        "out = self, each dimension rotated by its shift",
        {"roll": Overload()},
        attributes=("shifts",),
    ),
    Op(
        "triu",
        "custom",
        ("self",),
        "out = self, zero below a diagonal",
        {"triu": Overload()},
        attributes=("diagonal",),
    ),
    Op(
        "tril",
        "custom",
        ("self",),
        "out = self, zero above a diagonal",
        {"tril": Overload()},
        attributes=("diagonal",),
    ),
    Op(
        "channel_shuffle",
        "custom",
        ("self",),
        "out = self with its groups of channels interleaved",
        {"channel_shuffle": Overload()},
        attributes=("groups",),
    ),
    Op(
        "unfold_backward",
        "custom",
        ("grad",),
        "the gradient of windows along a dimension, which are in the last dimension of grad",
        {"unfold_backward": Overload()},
        attributes=("dim", "size", "step"),
    ),
    Op(
        "im2col",
        "custom",
        ("self",),
        "out = the windows of an image as columns",
        {"im2col": Overload(), "im2col.out": Overload()},
        attributes=WINDOWS,
    ),
    Op(
        "col2im",
        "custom",
        ("columns",),
        "out = columns added up where their windows lie in an image",
        {"col2im": Overload(), "col2im.out": Overload()},
        attributes=WINDOWS,
    ),
)
