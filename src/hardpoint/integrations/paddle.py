"""Paddle: tensors of one Hardpoint device go to torch and come from there by DLPack, without a copy."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "3.3"


def _tensor(module: ModuleType, patches: Patches) -> None:
    import hardpoint.paddle
    from hardpoint.paddle import dlpack as device_dlpack
    from hardpoint.paddle.dlpack import View

    def on_device(tensor: Any) -> bool:
        place = tensor.place
        return place.is_custom_place() and place.custom_device_type() in hardpoint.paddle.device_names()

    def dlpack_device(original: Any) -> Any:
        return lambda self: View(self).__dlpack_device__() if on_device(self) else original(self)

    def dlpack(original: Any) -> Any:
        def export(self: Any, **options: Any) -> Any:
            if not on_device(self):
                return original(self, **options)
            if not self.stop_gradient:
                raise BufferError("cannot export a tensor that requires a gradient: detach() it first")
            return View(self).__dlpack__(**options)

        return export

    def from_dlpack(original: Any) -> Any:
        def import_tensor(dlpack: Any, *arguments: Any, **options: Any) -> Any:
            import torch

            exported = isinstance(dlpack, torch.Tensor) and dlpack.device.type == patches.device
            if exported and patches.device in hardpoint.paddle.device_names() and not arguments and not options:
                return device_dlpack.from_dlpack(dlpack, patches.device)
            return original(dlpack, *arguments, **options)

        return import_tensor

    patches.wrap(module.utils.dlpack, "from_dlpack", "dlpack", from_dlpack)
    patches.wrap(module.Tensor, "__dlpack_device__", "self", dlpack_device)
    patches.wrap(module.Tensor, "__dlpack__", "self", dlpack)


PATCHES = {"paddle": _tensor}
