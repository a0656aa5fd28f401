"""Graph mode: with torch.compile(backend="hardpoint") each operator is one node and runs as a device kernel."""

import hardpoint.torch
import torch
from hardpoint.graph import Call, converter

from myops import kernels

for name in ("silu_mul", "silu_mul_backward"):
    hardpoint.kernel(f"myops.{name}", device=hardpoint.torch.mount())(getattr(kernels, name))


@converter(torch.ops.myops.silu_mul.default)
def silu_mul(node: torch.fx.Node) -> Call:
    return Call("myops.silu_mul", [node.meta["val"]], node.args)


@converter(torch.ops.myops.silu_mul_backward.default)
def silu_mul_backward(node: torch.fx.Node) -> Call:
    return Call("myops.silu_mul_backward", list(node.meta["val"]), node.args)
