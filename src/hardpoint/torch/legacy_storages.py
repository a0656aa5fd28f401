"""Storage classes such as ``torch.<device>.FloatStorage``, the names that ``storage().type()`` prints."""

from __future__ import annotations

from typing import Any


def make(device: str) -> dict[str, type]:
    """Create the storage classes of a device, one per dtype that torch has such a class for."""
    from torch import storage

    module = f"torch.{device}"  # torch derives the device from the module's name

    def from_buffer(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"from_buffer: Not available for {device} storage")

    def namespace(dtype: Any) -> dict[str, Any]:
        return {"__module__": module, "dtype": dtype, "_dtype": dtype, "from_buffer": staticmethod(from_buffer)}

    kinds: dict[Any, str] = storage._dtype_to_storage_type_map()
    return {
        name: type(name, (storage._LegacyStorage,), namespace(dtype))
        for dtype, name in kinds.items()
        if not name.startswith("Q")  # quantized
    }
