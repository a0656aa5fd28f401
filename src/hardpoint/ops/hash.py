"""Hashes of tensors, and assertions about them."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "hash_tensor",
        "custom",
        ("self",),
        "out = the bits of the elements of each row, floats as doubles, combined by exclusive or",
        {"hash_tensor": Overload()},
    ),
    Op(
        "assert_async",
        "custom",
        ("self",),
        "raises unless the only element is other than zero",
        {"_assert_async": Overload(), "_assert_async.msg": Overload()},
    ),
)
