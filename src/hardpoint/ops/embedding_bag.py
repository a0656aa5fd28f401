"""Embedding bags: sums, means and maxima of embedding rows."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "embedding_bag(weight, indices, offsets, per_sample_weights; mode, padding_idx)",
        "out = rows of weight reduced per bag; also the bag of each index, bag sizes, and indices of maxima",
        "_embedding_bag _embedding_bag_forward_only",
    ),
    custom_op(
        "embedding_bag_backward(grad)",
        "the gradient of embedding_bag for weight",
        "_embedding_bag_backward _embedding_bag_dense_backward",
    ),
    custom_op(
        "embedding_bag_per_sample_weights_backward(grad)",
        "the gradient of embedding_bag for per_sample_weights",
        "_embedding_bag_per_sample_weights_backward",
    ),
    custom_op("embedding_renorm(indices)", "scales rows of out at indices down to a maximum norm", "embedding_renorm_"),
)
