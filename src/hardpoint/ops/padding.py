"""Reflection and replication padding. Constant padding consists of fills and copies."""

from hardpoint.ops import custom_op

OPS = (
    custom_op(
        "reflection_pad(self; padding)",
        "out = self padded by reflection",
        "reflection_pad1d reflection_pad2d reflection_pad2d.out reflection_pad3d",
    ),
    custom_op(
        "reflection_pad_backward(grad_output; padding)",
        "the gradient of reflection_pad",
        "reflection_pad1d_backward reflection_pad2d_backward reflection_pad2d_backward.grad_input "
        "reflection_pad3d_backward",
    ),
    custom_op(
        "replication_pad(self; padding)",
        "out = self padded by its edge elements",
        "replication_pad1d replication_pad2d replication_pad3d",
    ),
    custom_op(
        "replication_pad_backward(grad_output; padding)",
        "the gradient of replication_pad",
        "replication_pad1d_backward replication_pad2d_backward replication_pad2d_backward.grad_input "
        "replication_pad3d_backward replication_pad3d_backward.grad_input",
    ),
)
