"""Padding from the tensor's own elements. Padding by a constant is made of fills and copies."""

from hardpoint.ops import Op, Overload


def _overloads(name: str, structured: tuple[int, ...]) -> dict[str, Overload]:
    """The overloads of one way of padding; out= follows by itself for the numbers of dimensions in `structured`."""
    made = {}
    for rank in (1, 2, 3):
        made[name.format(rank)] = Overload()
        if rank not in structured:
            out = "grad_input" if "backward" in name else "out"
            made[f"{name.format(rank)}.{out}"] = Overload()
    return made


OPS = (
    Op(
        "reflection_pad",
        "custom",
        ("self",),
        "out = self, continued by its mirror image",
        _overloads("reflection_pad{}d", (1, 3)),
        attributes=("padding",),
    ),
    Op(
        "reflection_pad_backward",
        "custom",
        ("grad_output",),
        "the gradient of reflection_pad",
        _overloads("reflection_pad{}d_backward", (1, 3)),
        attributes=("padding",),
    ),
    Op(
        "replication_pad",
        "custom",
        ("self",),
        "out = self, continued by its outermost elements",
        _overloads("replication_pad{}d", (1, 2, 3)),
        attributes=("padding",),
    ),
    Op(
        "replication_pad_backward",
        "custom",
        ("grad_output",),
        "the gradient of replication_pad",
        _overloads("replication_pad{}d_backward", (1,)),
        attributes=("padding",),
    ),
)
