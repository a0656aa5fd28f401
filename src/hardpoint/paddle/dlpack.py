"""DLPack to and from Paddle tensors on a Hardpoint device. Paddle's own DLPack rejects custom devices.

:mod:`hardpoint.paddle.exchange` gives these functions to Paddle.
"""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_int64, c_void_p
from typing import TYPE_CHECKING

from hardpoint import _dlpack

if TYPE_CHECKING:
    import paddle
    import tvm_ffi

#: Objects that back live views, by address of the view.
_held: dict[int, tuple[object, ...]] = {}


def _release(address: int) -> None:
    _held.pop(address, None)


_deleter = CFUNCTYPE(None, c_void_p)(_release)


class View:
    """A DLPack exporter that shares memory with a Paddle tensor."""

    def __init__(self, tensor: paddle.Tensor) -> None:
        self._tensor = tensor
        place = tensor.place
        custom = place.is_custom_place()
        self._device = (_dlpack.DEVICE, place.custom_device_id()) if custom else (_dlpack.CPU, 0)
        if not custom and not place.is_cpu_place():
            raise ValueError(f"a tensor on {place} is not on a Hardpoint device or the CPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack device type and index."""
        return self._device

    def __dlpack__(self, **_: object) -> object:
        """DLPack capsule that holds a reference to the tensor."""
        tensor = self._tensor
        name = str(tensor.dtype).rpartition(".")[2]
        kind = name.rstrip("0123456789")
        shape = (c_int64 * max(tensor.ndim, 1))(*tensor.shape)
        strides = (c_int64 * max(tensor.ndim, 1))(*tensor.strides)
        managed = _dlpack.ManagedTensor()
        managed.tensor = _dlpack.Tensor(
            tensor.data_ptr(),
            *self._device,
            tensor.ndim,
            _dlpack.CODES[kind],
            8 if kind == "bool" else int(name[len(kind) :]),
            1,
            ctypes.cast(shape, POINTER(c_int64)),
            ctypes.cast(strides, POINTER(c_int64)),
            0,
        )
        managed.deleter = ctypes.cast(_deleter, c_void_p).value
        address = ctypes.addressof(managed)
        _held[address] = (managed, tensor, shape, strides)
        return _dlpack.new_capsule(address, _dlpack.UNUSED, _dlpack.release_unused)


def view(tensor: paddle.Tensor) -> tvm_ffi.Tensor:
    """TVM-FFI tensor that shares memory with a Paddle tensor. Work on it is ordered with Paddle's default stream."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(View(tensor))


def device_of(exporter: object) -> str | None:
    """Name of the mounted device that an exporter or a capsule of it is on; None if it is on none."""
    import hardpoint.paddle

    address = 0
    if hasattr(exporter, "__dlpack_device__"):
        kind = int(exporter.__dlpack_device__()[0])
    elif _dlpack.is_capsule(exporter, _dlpack.UNUSED):
        address = _dlpack.capsule_pointer(exporter, _dlpack.UNUSED)
        kind = _dlpack.ManagedTensor.from_address(address).tensor.device_type
    else:
        return None
    if kind != _dlpack.DEVICE:
        return None
    # All plug-ins share DLPack's type of device; the exporter knows the name.
    owner = _held[address][1] if address in _held else exporter
    mounted = hardpoint.paddle.device_names()
    place, device = getattr(owner, "place", None), getattr(owner, "device", None)
    for name in (getattr(place, "custom_device_type", str)(), getattr(device, "type", None)):
        if name in mounted:
            return name
    if len(mounted) != 1:
        raise BufferError(f"the tensor may be on any of {', '.join(mounted)}: pass the tensor instead of its capsule")
    return mounted[0]


class _Owner:
    """Calls the exporter's deleter when the last tensor on its memory is gone."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __del__(self) -> None:
        deleter = _dlpack.ManagedTensor.from_address(self._address).deleter
        if deleter:
            CFUNCTYPE(None, c_void_p)(deleter)(self._address)


def from_dlpack(exporter: object, device: str) -> paddle.Tensor:
    """Paddle tensor that shares memory with a tensor of another library on the same device.

    Args:
        exporter: Object with ``__dlpack__``, or a capsule of it.
        device: Name of the Hardpoint device.
    """
    import paddle

    from hardpoint.paddle import _adapter

    # stream=None: the exporter finishes its work first.
    capsule = exporter.__dlpack__(stream=None) if hasattr(exporter, "__dlpack__") else exporter
    address = _dlpack.capsule_pointer(capsule, _dlpack.UNUSED)
    tensor = _dlpack.ManagedTensor.from_address(address).tensor
    if tensor.device_type != _dlpack.DEVICE:
        raise BufferError(f"the tensor is not on '{device}': its DLPack device type is {tensor.device_type}")
    _dlpack.set_capsule_name(capsule, _dlpack.USED)
    owner = _Owner(address)
    sizes = [tensor.shape[i] for i in range(tensor.ndim)]
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else _dense_strides(sizes)
    reach = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1 if 0 not in sizes else 0
    place = paddle.CustomPlace(device, tensor.device_id)
    adapter = _adapter.load()
    adapter.lend_memory((tensor.data or 0) + tensor.byte_offset, reach * tensor.bits // 8, sizes, strides, owner)
    try:
        return paddle._C_ops.full(sizes, 0, getattr(paddle, _dtype_name(tensor.code, tensor.bits)), place)
    finally:
        adapter.end_loan()


def _dense_strides(sizes: list[int]) -> list[int]:
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(sizes)]


def _dtype_name(code: int, bits: int) -> str:
    kind = next(name for name, number in _dlpack.CODES.items() if number == code)
    return "bool" if kind == "bool" else f"{kind}{bits}"
