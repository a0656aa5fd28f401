"""Hashes of tensors, and assertions about them."""

from hardpoint.ops import custom_op

OPS = (
    custom_op("hash_tensor(self)", "out = exclusive or of the bits of each row, with floats as doubles", "hash_tensor"),
    custom_op("assert_async(self)", "raises if the single element is zero", "_assert_async _assert_async.msg"),
)
