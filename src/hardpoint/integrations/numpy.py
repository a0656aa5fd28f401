"""NumPy: a helpful error from ``numpy.from_dlpack``, which reads host memory only."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hardpoint.integrations._patches import Patches

TESTED = "2.2 to 2.4"


def _from_dlpack(module: ModuleType, patches: Patches) -> None:
    import functools

    import torch

    original = module.from_dlpack

    @functools.wraps(original)
    def from_dlpack(x: Any, /, **options: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.device.type == patches.device and options.get("device") is None:
            raise BufferError(
                f"NumPy cannot read the memory of {x.device}: copy the tensor, with x.numpy(force=True) or"
                " numpy.from_dlpack(x, device='cpu')"
            )
        return original(x, **options)

    patches.replace(module, "from_dlpack", from_dlpack)


PATCHES = {"numpy": _from_dlpack}
