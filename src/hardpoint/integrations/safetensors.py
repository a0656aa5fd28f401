"""safetensors: ``load_file(device=...)`` and ``safe_open(device=...)`` with the mounted device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "0.8"


def _safe_open(module: ModuleType, patches: Patches) -> None:
    original = module.safe_open
    name = patches.device

    class safe_open:
        """Opens a file of tensors, and copies each to the mounted device when it is read."""

        def __new__(cls, filename: Any, framework: str, device: Any = "cpu", **options: Any) -> Any:
            if device is None or framework not in ("pt", "torch", "pytorch") or not _on_device(device, name):
                return original(filename, framework, *(() if device is None else (device,)), **options)
            return super().__new__(cls)

        def __init__(self, filename: Any, framework: str, device: Any = "cpu", **options: Any) -> None:
            self._file = original(filename, framework, "cpu", **options)
            self._device = device

        def __enter__(self) -> safe_open:
            self._file.__enter__()
            return self

        def __exit__(self, *error: Any) -> None:
            self._file.__exit__(*error)

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self._file, attribute)  # keys, metadata, ...

        def get_tensor(self, key: str) -> Any:
            """Copy a tensor to the device."""
            return self._file.get_tensor(key).to(self._device)

        def get_slice(self, key: str) -> _Slice:
            """Return a lazy tensor that copies only the indexed part."""
            return _Slice(self._file.get_slice(key), self._device)

        def get_tensors(self, *arguments: Any) -> dict[str, Any]:
            """Copy several tensors to the device."""
            return {key: tensor.to(self._device) for key, tensor in self._file.get_tensors(*arguments).items()}

    patches.replace(module, "safe_open", safe_open)


class _Slice:
    def __init__(self, part: Any, device: Any) -> None:
        self._part, self._device = part, device

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self._part, attribute)  # get_shape, get_dtype

    def __getitem__(self, index: Any) -> Any:
        return self._part[index].to(self._device)


def _on_device(device: Any, name: str) -> bool:
    # A number means an index of the accelerator, as in torch.
    return isinstance(device, int) or str(device).partition(":")[0] == name


PATCHES = {"safetensors": _safe_open}
