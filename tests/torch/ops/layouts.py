"""Views of a 3-dimensional tensor whose first two sizes are 6."""

VIEWS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 1),
    "step": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(6, *t.shape[1:]),
    "0-dim": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:0],
}
