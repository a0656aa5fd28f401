"""The operators in torch: schemas, kernels, shapes, gradient, autocast."""

import hardpoint.torch
import torch

from myops import kernels

library = torch.library.Library("myops", "DEF")
library.define("silu_mul(Tensor gate, Tensor up) -> Tensor")
library.define("silu_mul_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)")


def check(op: str, **tensors: torch.Tensor) -> None:
    """Reject unsupported arguments with the messages of torch's own operators."""
    (name, first), *others = tensors.items()
    if not first.dtype.is_floating_point:
        kind = torch.empty(0, dtype=first.dtype, device="cpu").type().removeprefix("torch.").removesuffix("Tensor")
        raise NotImplementedError(f"\"{op}\" not implemented for '{kind}'")
    for other_name, other in others:
        if other.dtype != first.dtype:
            raise RuntimeError(
                f"expected {name} and {other_name} to have the same dtype, but got: {first.dtype} != {other.dtype}"
            )
        if other.device != first.device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{first.device} and {other.device}!"
            )
        if other.shape != first.shape:
            raise RuntimeError(
                f"expected {name} and {other_name} to have the same shape, but got: {first.shape} != {other.shape}"
            )


def silu_mul(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    check("silu_mul", gate=gate, up=up)
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    try:
        kernels.silu_mul(out, gate, up)
    except NotImplementedError:  # no kernel for this dtype or device: use torch operators
        torch.mul(torch.nn.functional.silu(gate), up, out=out)
    return out


def silu_mul_backward(grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    check("silu_mul_backward", grad=grad, gate=gate, up=up)
    grad, gate, up = grad.contiguous(), gate.contiguous(), up.contiguous()
    gate_grad, up_grad = torch.empty_like(gate), torch.empty_like(up)
    try:
        kernels.silu_mul_backward(gate_grad, up_grad, grad, gate, up)
    except NotImplementedError:
        torch.ops.aten.silu_backward.grad_input(grad * up, gate, grad_input=gate_grad)
        torch.mul(torch.nn.functional.silu(gate), grad, out=up_grad)
    return gate_grad, up_grad


for key in ("CPU", "PrivateUse1"):
    library.impl("silu_mul", silu_mul, key)
    library.impl("silu_mul_backward", silu_mul_backward, key)


@torch.library.register_fake("myops::silu_mul", lib=library)
def _(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    check("silu_mul", gate=gate, up=up)
    return torch.empty_like(gate, memory_format=torch.contiguous_format)


@torch.library.register_fake("myops::silu_mul_backward", lib=library)
def _(grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    check("silu_mul_backward", grad=grad, gate=gate, up=up)
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (gate, up))


def backward(ctx, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.myops.silu_mul_backward(grad, *ctx.saved_tensors)


def second_backward(ctx, of_gate_grad: torch.Tensor, of_up_grad: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Second derivative. It is rarely needed, so it uses torch operators instead of a kernel."""
    grad, gate, up = ctx.saved_tensors
    s = torch.sigmoid(gate)
    slope, curve = s * (1 + gate * (1 - s)), s * (1 - s) * (2 + gate * (1 - 2 * s))
    of_grad = of_gate_grad * up * slope + of_up_grad * gate * s
    return of_grad, grad * (of_gate_grad * up * curve + of_up_grad * slope), of_gate_grad * grad * slope


def save(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs)


torch.library.register_autograd("myops::silu_mul", backward, setup_context=save, lib=library)
torch.library.register_autograd("myops::silu_mul_backward", second_backward, setup_context=save, lib=library)


def register_autocast(device: str, key: str) -> None:
    """Compute in the autocast dtype, like the matrix products around the operator.

    torch.library.register_autocast would fix one dtype, whatever the program chooses.
    """

    def rule(*tensors: torch.Tensor) -> torch.Tensor:
        dtype = torch.get_autocast_dtype(device)
        with torch.autocast(device, enabled=False):
            return torch.ops.myops.silu_mul(*(x if x.dtype == torch.float64 else x.to(dtype) for x in tensors))

    library.impl("silu_mul", rule, key)


register_autocast("cpu", "AutocastCPU")
register_autocast(hardpoint.torch.mount(), "AutocastPrivateUse1")
