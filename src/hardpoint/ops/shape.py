"""Operators that move elements: concatenation, flip, roll, windows."""

from hardpoint.ops import custom_op

WINDOWS = "kernel_size, dilation, padding, stride"

OPS = (
    custom_op("cat(tensors; dim)", "out = tensors concatenated along a dimension; each is a separate argument", "cat"),
    custom_op("flip(self; dims)", "out = self in reverse order along dims", "flip"),
    custom_op("roll(self; shifts)", "out = self rotated along dims by shifts", "roll"),
    custom_op("triu(self; diagonal)", "out = self, zero below a diagonal", "triu"),
    custom_op("tril(self; diagonal)", "out = self, zero above a diagonal", "tril"),
    custom_op("channel_shuffle(self; groups)", "out = self with groups of channels interleaved", "channel_shuffle"),
    custom_op(
        "unfold_backward(grad; dim, size, step)",
        "gradient of windows along a dimension; grad has them in its last dimension",
        "unfold_backward",
    ),
    custom_op(f"im2col(self; {WINDOWS})", "out = windows of an image as columns", "im2col im2col.out"),
    custom_op(
        f"col2im(columns; {WINDOWS})",
        "out = columns accumulated at the positions of their windows",
        "col2im col2im.out",
    ),
)
