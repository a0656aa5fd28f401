"""Kernels as TVM-FFI functions for any framework: outputs first, then inputs, contiguous and of one dtype.

A kernel declines a call by raising NotImplementedError before it writes anything.
"""

from pathlib import Path
from typing import Any

import tvm_ffi
from hardpoint.kernels.custom import PortableKernels

FOLDER = Path(__file__).parent
on_cpu = tvm_ffi.load_module(str(FOLDER / "libmyops.so"))
#: Compiled by the device's compiler on first use. A vendor can load a library instead, as above.
on_device = PortableKernels((FOLDER / "device.c").read_text(), "myops")


def run(name: str, tensors: tuple[Any, ...]) -> None:
    """Run a kernel on the device of its tensors."""
    if tensors[0].device.type == "cpu":
        getattr(on_cpu, name)(*tensors)
    else:
        elements = 1
        for size in tensors[0].shape:
            elements *= size
        on_device.launch(name, elements, *tensors, elements, T=tensors[0].dtype)


@tvm_ffi.register_global_func("myops.silu_mul")
def silu_mul(out: Any, gate: Any, up: Any) -> None:
    """out = silu(gate) * up."""
    run("silu_mul", (out, gate, up))


@tvm_ffi.register_global_func("myops.silu_mul_backward")
def silu_mul_backward(gate_grad: Any, up_grad: Any, grad: Any, gate: Any, up: Any) -> None:
    """Gradients of gate and up from the gradient of the result."""
    run("silu_mul_backward", (gate_grad, up_grad, grad, gate, up))
