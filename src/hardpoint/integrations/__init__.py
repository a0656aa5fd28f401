"""Patches for libraries that choose a device from a fixed list of names, so that they know the mounted one.

An integration is a module of this package with the library's name. It is loaded when a device is mounted on PyTorch and
the program imports the library, in either order. Programs without a device, and libraries that a program does not
import, are not affected. ``HARDPOINT_INTEGRATIONS=0`` turns all integrations off, ``=accelerate,lightning`` all others.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import types
import warnings
from dataclasses import dataclass, field

from hardpoint import _import_hook
from hardpoint.integrations._patches import LibraryChanged, Patches

#: Module of a library -> the integration that patches it. A module is patched right after its first import, before
#: others can copy names from it.
PATCHED_MODULES = {
    "numpy": "numpy",
    "safetensors": "safetensors",
    "ray.air._internal.device_manager": "ray",
    "ray.train.torch.config": "ray",
    "ray.train.v2.torch.train_loop_utils": "ray",
    "accelerate.state": "accelerate",
    "accelerate.accelerator": "accelerate",
    "accelerate.checkpointing": "accelerate",
    "accelerate.utils.dataclasses": "accelerate",
    "accelerate.utils.environment": "accelerate",
    "accelerate.utils.memory": "accelerate",
    "accelerate.utils.modeling": "accelerate",
    "accelerate.commands.env": "accelerate",
    "accelerate.commands.launch": "accelerate",
    "transformers.utils.import_utils": "transformers",
    "transformers.cache_utils": "transformers",
    "transformers.generation.continuous_batching.utils": "transformers",
    "transformers.generation.utils": "transformers",
    "transformers.training_args": "transformers",
    "transformers.trainer": "transformers",
    "transformers.pipelines.base": "transformers",
    "lightning.fabric.accelerators": "lightning",
    "lightning.fabric.connector": "lightning",
    "lightning.fabric.plugins.precision.fsdp": "lightning",
    "lightning.fabric.strategies.ddp": "lightning",
    "lightning.fabric.strategies.fsdp": "lightning",
    "lightning.fabric.utilities.seed": "lightning",
    "lightning.pytorch.accelerators": "lightning",
    "lightning.pytorch.callbacks.throughput_monitor": "lightning",
    "lightning.pytorch.plugins.precision.fsdp": "lightning",
    "lightning.pytorch.profilers.pytorch": "lightning",
    "lightning.pytorch.strategies.ddp": "lightning",
    "lightning.pytorch.strategies.fsdp": "lightning",
    "lightning.pytorch.trainer.connectors.accelerator_connector": "lightning",
    "lightning.pytorch.trainer.setup": "lightning",
    "lightning.pytorch.utilities.memory": "lightning",
    "lightning_fabric.accelerators": "lightning",
    "lightning_fabric.connector": "lightning",
    "lightning_fabric.plugins.precision.fsdp": "lightning",
    "lightning_fabric.strategies.ddp": "lightning",
    "lightning_fabric.strategies.fsdp": "lightning",
    "lightning_fabric.utilities.seed": "lightning",
    "pytorch_lightning.accelerators": "lightning",
    "pytorch_lightning.callbacks.throughput_monitor": "lightning",
    "pytorch_lightning.plugins.precision.fsdp": "lightning",
    "pytorch_lightning.profilers.pytorch": "lightning",
    "pytorch_lightning.strategies.ddp": "lightning",
    "pytorch_lightning.strategies.fsdp": "lightning",
    "pytorch_lightning.trainer.connectors.accelerator_connector": "lightning",
    "pytorch_lightning.trainer.setup": "lightning",
    "pytorch_lightning.utilities.memory": "lightning",
    "deepspeed.accelerator.real_accelerator": "deepspeed",
}


@dataclass
class State:
    """The state of the integrations in this process.

    Attributes:
        device: Name of the mounted device, or None.
        patched: Patched modules, by library.
        refused: Why a library was not patched, by library.
    """

    device: str | None = None
    patched: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


state = State()
_lock = threading.RLock()


def activate(device: str) -> None:
    """Patch the libraries that are already imported, and the others when they are."""
    state.device = device
    names = {name for name, library in PATCHED_MODULES.items() if _enabled(library)}
    _import_hook.install(names, _patch)
    for name in names:
        if (module := sys.modules.get(name)) is not None:
            _import_hook.when_imported(module, _patch)


def _enabled(library: str) -> bool:
    chosen = os.environ.get("HARDPOINT_INTEGRATIONS", "")
    return chosen in ("", "1") or library in (name.strip() for name in chosen.split(","))


def _patch(module: types.ModuleType) -> None:
    """Patch one module. Never raises, so that the program works as it would without Hardpoint."""
    name = module.__name__
    library = PATCHED_MODULES[name]
    with _lock:
        if library in state.refused or name in state.patched.get(library, ()):
            return
        integration = importlib.import_module(f"hardpoint.integrations.{library}")
        try:
            patches = Patches(str(state.device))
            integration.PATCHES[name](module, patches)
            patches.apply()
        except (LibraryChanged, AttributeError, ImportError, TypeError, ValueError) as error:
            state.refused[library] = str(error)
            warnings.warn(
                f"hardpoint: {library} {_version(name)} is not told about the device '{state.device}', because it"
                f" differs from the versions tested ({integration.TESTED}): {error}. It may choose the CPU",
                RuntimeWarning,
                stacklevel=2,
            )
            return
        state.patched.setdefault(library, []).append(name)


def _version(module: str) -> str:
    top = sys.modules.get(module.partition(".")[0])
    return str(getattr(top, "__version__", "of an unknown version"))
