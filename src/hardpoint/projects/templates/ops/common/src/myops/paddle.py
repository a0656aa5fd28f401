"""The operator in Paddle, with the same kernels and its gradient."""

import paddle
from hardpoint.paddle.dlpack import view

from myops import kernels


class _SiluMul(paddle.autograd.PyLayer):
    @staticmethod
    def forward(context, gate: paddle.Tensor, up: paddle.Tensor) -> paddle.Tensor:
        context.save_for_backward(gate, up)
        out = paddle.empty_like(gate)
        try:
            kernels.silu_mul(view(out), view(gate), view(up))
        except NotImplementedError:  # no kernel for this dtype or device: use Paddle operators
            out = paddle.nn.functional.silu(gate) * up
        return out

    @staticmethod
    def backward(context, grad: paddle.Tensor) -> tuple[paddle.Tensor, paddle.Tensor]:
        gate, up = context.saved_tensor()
        gate_grad, up_grad = paddle.empty_like(gate), paddle.empty_like(up)
        try:
            kernels.silu_mul_backward(view(gate_grad), view(up_grad), view(grad), view(gate), view(up))
        except NotImplementedError:
            sigmoid = paddle.nn.functional.sigmoid(gate)
            gate_grad, up_grad = grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid
        return gate_grad, up_grad


def silu_mul(gate: paddle.Tensor, up: paddle.Tensor) -> paddle.Tensor:
    """silu(gate) * up for two tensors of the same dtype, with broadcasting."""
    if gate.dtype != up.dtype:
        raise TypeError(f"silu_mul: gate and up must have the same dtype, but got {gate.dtype} and {up.dtype}")
    if not paddle.in_dynamic_mode():  # static graphs use Paddle operators
        return paddle.nn.functional.silu(gate) * up
    gate, up = paddle.broadcast_tensors([gate, up])
    return _SiluMul.apply(gate.contiguous(), up.contiguous())
