"""Softmax, log-softmax and log-sum-exp."""

from hardpoint.ops import Overload, custom_op

OPS = (
    custom_op("softmax(self; dim)", "out = exp(self) / sum(exp(self)) along a dimension", "_softmax"),
    custom_op("log_softmax(self; dim)", "out = log(softmax(self)) along a dimension", "_log_softmax"),
    custom_op("softmax_backward(grad_output, output; dim)", "the gradient of softmax", "_softmax_backward_data"),
    custom_op(
        "log_softmax_backward(grad_output, output; dim)", "the gradient of log_softmax", "_log_softmax_backward_data"
    ),
    custom_op(
        "logsumexp(self)",
        "out = log(sum(exp(self))) along the last dimension",
        "logsumexp logsumexp.out",
        Overload(composite=True),
    ),
    custom_op("masked_softmax(self, mask; dim)", "softmax over the elements where mask is false", "_masked_softmax"),
    custom_op(
        "masked_softmax_backward(grad_output, output, mask; dim)",
        "the gradient of masked_softmax",
        "_masked_softmax_backward",
    ),
)
