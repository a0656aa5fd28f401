"""Sums, means and maxima of rows of an embedding."""

from hardpoint.ops import Op, Overload

OPS = (
    Op(
        "embedding_bag",
        "custom",
        ("weight", "indices", "offsets", "per_sample_weights"),
        "out = rows of weight combined bag by bag; also each index's bag, the bags' sizes, and where maxima come from",
        {"_embedding_bag": Overload(), "_embedding_bag_forward_only": Overload()},
        attributes=("mode", "padding_idx"),
    ),
    Op(
        "embedding_bag_backward",
        "custom",
        ("grad",),
        "the gradient of embedding_bag for weight",
        {"_embedding_bag_backward": Overload(), "_embedding_bag_dense_backward": Overload()},
    ),
    Op(
        "embedding_bag_per_sample_weights_backward",
        "custom",
        ("grad",),
        "the gradient of embedding_bag for per_sample_weights",
        {"_embedding_bag_per_sample_weights_backward": Overload()},
    ),
    Op(
        "embedding_renorm",
        "custom",
        ("indices",),
        "shortens the rows of out that indices names to a norm",
        {"embedding_renorm_": Overload()},
    ),
)
