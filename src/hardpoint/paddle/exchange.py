"""Paddle's functions for DLPack, extended to tensors on a Hardpoint device, whose memory they share."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import hardpoint.paddle
from hardpoint import _dlpack
from hardpoint.integrations._patches import LibraryChanged, Patches
from hardpoint.paddle import dlpack


def install() -> None:
    """Extend the functions of Paddle, which may be half imported."""
    functions = importlib.import_module("paddle.utils.dlpack")
    tensor = sys.modules["paddle.base.libpaddle"].eager.Tensor
    patches = Patches("")
    try:
        patches.wrap(functions, "to_dlpack", "x", _to_dlpack)
        patches.wrap(functions, "from_dlpack", "dlpack", _from_dlpack)
        patches.wrap(tensor, "__dlpack_device__", "self", _dlpack_device)
        patches.wrap(tensor, "__dlpack__", "self", _dlpack_method)
    except LibraryChanged as error:
        warnings.warn(f"hardpoint: no DLPack for tensors of Paddle on a device: {error}", RuntimeWarning, stacklevel=2)
        return
    patches.apply()


def _on_device(place: Any) -> bool:
    return place.is_custom_place() and place.custom_device_type() in hardpoint.paddle.device_names()


def _dlpack_device(original: Any) -> Any:
    return lambda self: dlpack.View(self).__dlpack_device__() if _on_device(self.place) else original(self)


def _dlpack_method(original: Any) -> Any:
    def export(
        self: Any,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if not _on_device(self.place):
            return original(self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)
        if not self.stop_gradient:
            raise BufferError("cannot export a tensor that requires a gradient: detach() it first")
        view = dlpack.View(self)
        if dl_device is not None and int(dl_device[0]) == _dlpack.CPU:
            if copy is False:
                raise BufferError(f"a tensor on {self.place} cannot be exported to the CPU without a copy")
            return self.cpu().__dlpack__()
        if dl_device is not None and tuple(map(int, dl_device)) != view.__dlpack_device__():
            raise BufferError(f"a tensor on {self.place} cannot be exported to the DLPack device {tuple(dl_device)}")
        return (dlpack.View(self.clone()) if copy else view).__dlpack__()

    return export


def _to_dlpack(original: Any) -> Any:
    def to_dlpack(x: Any) -> Any:
        import paddle

        if isinstance(x, paddle.Tensor) and _on_device(x.place):
            return dlpack.View(x).__dlpack__()
        if isinstance(x, paddle.base.core.DenseTensor) and x._is_initialized() and _on_device(x._place()):
            with paddle.base.dygraph.guard(x._place()):
                return dlpack.View(paddle.Tensor(x, place=x._place())).__dlpack__()
        return original(x)

    return to_dlpack


def _from_dlpack(original: Any) -> Any:
    def from_dlpack(dlpack_: Any, *, device: Any = None, copy: bool | None = None) -> Any:
        import paddle

        source = dlpack.device_of(dlpack_)
        if source is None:
            return original(dlpack_, device=device, copy=copy)
        if not paddle.in_dynamic_mode():
            with paddle.base.dygraph.guard(paddle.CustomPlace(source, 0)):
                return from_dlpack(dlpack_, device=device, copy=copy).get_tensor()
        tensor = dlpack.from_dlpack(dlpack_, source)
        place = tensor.place if device is None else paddle.base.framework._get_paddle_place(device)
        if str(place) != str(tensor.place):
            if copy is False:
                raise BufferError(f"a tensor on {tensor.place} cannot be imported to {place} without a copy")
            tensor = tensor.to(place)
        elif copy:
            tensor = tensor.clone()
        return tensor

    return from_dlpack
