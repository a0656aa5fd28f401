"""Distances between rows."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "cdist(x1, x2; p)", "out = p-norm distance of each row of x1 and each row of x2, per batch", "_cdist_forward"
    ),
    custom_op("cdist_backward(grad, x1, x2, cdist; p)", "out = the gradient of x1", "_cdist_backward"),
    custom_op("pdist(self; p)", "out = p-norm distance of each row and each later row", "_pdist_forward"),
    custom_op("pdist_backward(grad, self, pdist; p)", "out = the gradient of self", "_pdist_backward"),
)
