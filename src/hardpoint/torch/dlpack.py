"""DLPack for the device under its own name.

torch knows the device type of the extension slot only as "privateuse1" and rejects a renamed device.
"""

from __future__ import annotations

import functools
from typing import Any


def register(name: str) -> None:
    """Make ``torch.from_dlpack`` and DLPack consumers accept tensors of this device."""
    import torch
    from torch.utils.dlpack import DLDeviceType

    dlpack_device = torch.Tensor.__dlpack_device__
    export = torch.Tensor.__dlpack__

    @functools.wraps(dlpack_device)
    def extension_device(self: Any) -> Any:
        if self.device.type != name:
            return dlpack_device(self)
        return DLDeviceType.kDLExtDev, self.device.index or 0

    @functools.wraps(export)
    def export_in_order(self: Any, *, stream: Any = -1, **options: Any) -> Any:
        # A consumer that names no stream (None) may use any, so the work must be finished. -1: no synchronization.
        if self.device.type == name and stream is None:
            torch.accelerator.current_stream(self.device).synchronize()
        return export(self, stream=stream, **options)

    torch.Tensor.__dlpack_device__ = extension_device
    torch.Tensor.__dlpack__ = export_in_order
