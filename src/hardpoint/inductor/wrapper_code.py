"""Lines of Python that Inductor puts into the code around the kernels."""

from __future__ import annotations

from typing import Any


def overrides(name: str) -> Any:
    """The device's lines, as Inductor's registration wants them."""
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
