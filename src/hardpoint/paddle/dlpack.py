"""DLPack views of Paddle tensors for TVM-FFI. Paddle's own DLPack rejects custom devices."""

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
