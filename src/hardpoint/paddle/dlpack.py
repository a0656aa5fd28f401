"""DLPack to and from Paddle tensors on a Hardpoint device. Paddle's own DLPack rejects custom devices."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any

#: DLPack device types: CPU, and HP_DLPACK_DEVICE_TYPE of plugin.h.
_CPU, _DEVICE = 1, 12
#: DLPack type codes.
_CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}


class _Tensor(Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )


class _Managed(Structure):
    _fields_ = (("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p))


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype, _new_capsule.argtypes = ctypes.py_object, (c_void_p, ctypes.c_char_p, c_void_p)
#: Objects that back live views, by address of the view.
_held: dict[int, tuple[Any, ...]] = {}


def _release(address: int) -> None:
    _held.pop(address, None)


_deleter = CFUNCTYPE(None, c_void_p)(_release)


class View:
    """A DLPack exporter that shares memory with a Paddle tensor."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor
        place = tensor.place
        custom = place.is_custom_place()
        self._device = (_DEVICE, place.custom_device_id()) if custom else (_CPU, 0)
        if not custom and not place.is_cpu_place():
            raise ValueError(f"a tensor on {place} is not on a Hardpoint device or the CPU")

    def __dlpack_device__(self) -> tuple[int, int]:
        """DLPack device type and index."""
        return self._device

    def __dlpack__(self, **_: Any) -> Any:
        """DLPack capsule that holds a reference to the tensor."""
        tensor = self._tensor
        name = str(tensor.dtype).rpartition(".")[2]
        kind = name.rstrip("0123456789")
        shape = (c_int64 * max(tensor.ndim, 1))(*tensor.shape)
        strides = (c_int64 * max(tensor.ndim, 1))(*tensor.strides)
        managed = _Managed()
        managed.tensor = _Tensor(
            tensor.data_ptr(),
            *self._device,
            tensor.ndim,
            _CODES[kind],
            8 if kind == "bool" else int(name[len(kind) :]),
            1,
            ctypes.cast(shape, POINTER(c_int64)),
            ctypes.cast(strides, POINTER(c_int64)),
            0,
        )
        managed.deleter = ctypes.cast(_deleter, c_void_p).value
        address = ctypes.addressof(managed)
        _held[address] = (managed, tensor, shape, strides)
        return _new_capsule(address, b"dltensor", None)


def view(tensor: Any) -> Any:
    """TVM-FFI tensor that shares memory. Work on it is ordered with Paddle's default stream."""
    import tvm_ffi

    return tvm_ffi.from_dlpack(View(tensor))


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
_set_capsule_name = ctypes.pythonapi.PyCapsule_SetName
_set_capsule_name.argtypes = (ctypes.py_object, ctypes.c_char_p)
_consumed_name = b"used_dltensor"  # Python keeps the pointer


class _Owner:
    """Calls the exporter's deleter when the last tensor on its memory is gone."""

    def __init__(self, address: int) -> None:
        self._address = address

    def __del__(self) -> None:
        deleter = _Managed.from_address(self._address).deleter
        if deleter:
            CFUNCTYPE(None, c_void_p)(deleter)(self._address)


def from_dlpack(exporter: Any, device: str) -> Any:
    """Paddle tensor that shares memory with a tensor of another library on the same device.

    Args:
        exporter: Object with ``__dlpack__``, or a capsule of it.
        device: Name of the Hardpoint device.
    """
    import paddle

    from hardpoint.paddle import _adapter

    # Without a stream, the exporter finishes its work first.
    capsule = exporter.__dlpack__(stream=None) if hasattr(exporter, "__dlpack__") else exporter
    address = _capsule_pointer(capsule, b"dltensor")
    tensor = _Managed.from_address(address).tensor
    if tensor.device_type != _DEVICE:
        raise BufferError(f"the tensor is not on '{device}': its DLPack device type is {tensor.device_type}")
    _set_capsule_name(capsule, _consumed_name)
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
    kind = next(name for name, number in _CODES.items() if number == code)
    return "bool" if kind == "bool" else f"{kind}{bits}"
