"""DLPack's structures and capsules, through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p

#: Device types: the CPU, and HP_DLPACK_DEVICE_TYPE of plugin.h.
CPU, DEVICE = 1, 12
#: Type codes.
CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
#: Name of a capsule with a tensor, and of one whose tensor was taken. Python keeps the pointers.
UNUSED, USED = b"dltensor", b"used_dltensor"


class Tensor(Structure):
    """``DLTensor`` of dlpack.h."""

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


class ManagedTensor(Structure):
    """``DLManagedTensor`` of dlpack.h."""

    _fields_ = (("tensor", Tensor), ("context", c_void_p), ("deleter", c_void_p))


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, (c_void_p, ctypes.c_char_p, c_void_p)
capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
capsule_pointer.restype, capsule_pointer.argtypes = c_void_p, (ctypes.py_object, ctypes.c_char_p)
is_capsule = ctypes.pythonapi.PyCapsule_IsValid
is_capsule.argtypes = (ctypes.py_object, ctypes.c_char_p)
set_capsule_name = ctypes.pythonapi.PyCapsule_SetName
set_capsule_name.argtypes = (ctypes.py_object, ctypes.c_char_p)

# The capsule's address, since a reference would bring it back to life.
_is_unused = PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_pointer = PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


def _destroy(capsule: int) -> None:
    if not _is_unused(capsule, UNUSED):
        return
    address = _pointer(capsule, UNUSED)
    deleter = ManagedTensor.from_address(address).deleter
    if deleter:
        CFUNCTYPE(None, c_void_p)(deleter)(address)


#: Destructor for :data:`new_capsule`: releases a tensor that nobody took.
release_unused = PYFUNCTYPE(None, c_void_p)(_destroy)
