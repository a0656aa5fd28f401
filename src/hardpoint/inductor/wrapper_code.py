"""The code around kernels: lines of Python for the device, and a refusal of C++."""

from __future__ import annotations

from typing import Any


def overrides(name: str) -> Any:
    """The device's lines, in the form that Inductor registers."""
    from torch._inductor.codegen.common import DeviceOpOverrides

    class Overrides(DeviceOpOverrides):  # type: ignore[misc]
        def import_get_raw_stream_as(self, function: str) -> str:
            return f"{function} = lambda index: 0"  # one line: Inductor indents it

        def set_device(self, device_idx: int) -> str:
            return f"torch.{name}.set_device({device_idx})"

        def synchronize(self) -> str:
            return f"torch.{name}.synchronize()"

        def device_guard(self, device_idx: int) -> str:
            return f"torch.{name}.device({device_idx})"

        def current_stream(self) -> str:
            return f"torch.{name}.current_stream()"

    return Overrides()


def no_cpp(name: str) -> Any:
    """In place of the class that writes C++ around kernels: AOTInductor needs one, and ``cpp_wrapper``."""

    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    class NoCpp(PythonWrapperCodegen):  # type: ignore[misc]
        @staticmethod
        def create(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(
                f"AOTInductor and cpp_wrapper do not support {name}: they write C++ for CUDA, XPU, MPS and the CPU. "
                "Use torch.compile, whose caches keep what it compiled, or run the exported program (torch.export)"
            )

    return NoCpp
