"""The compiled adapter: one for each torch minor version. Finding it, and building it on the user's machine."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, package_file


def torch_minor() -> str:
    """The installed torch's version as the adapter's name has it, such as ``2_13``; no import of torch."""
    from importlib.metadata import version

    return "_".join(version("torch").split(".")[:2])


def _file_name(minor: str) -> str:
    return f"_C_{minor}{sysconfig.get_config_var('EXT_SUFFIX')}"


def _places() -> list[Path]:
    import hardpoint
    from hardpoint.plugins import _cache_dir

    return [*(Path(root) / "torch" for root in hardpoint.__path__), _cache_dir() / "adapters" / hardpoint.__version__]


def find() -> Path | None:
    """The adapter for the installed torch, or None if it is not built."""
    name = _file_name(torch_minor())
    return next((place / name for place in _places() if (place / name).exists()), None)


def load() -> Any:
    """Import the adapter for the installed torch."""
    path = find()
    if path is None:
        built = sorted({p.name.split(".")[0][3:].replace("_", ".") for d in _places() for p in d.glob("_C_*.so")})
        raise PluginError(
            f"Hardpoint's adapter is not built for torch {torch_minor().replace('_', '.')}"
            f" (there is one for: {', '.join(built) or 'none'}); build it with: hardpoint build torch"
        )
    module = f"hardpoint.torch._C_{torch_minor()}"
    if module in sys.modules:
        return sys.modules[module]
    loader = importlib.machinery.ExtensionFileLoader(module, str(path))
    spec = importlib.util.spec_from_file_location(module, path, loader=loader)
    assert spec is not None
    try:
        loaded = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
    except ImportError as error:
        raise PluginError(
            f"Hardpoint's adapter {path} does not load with this torch: {error}; "
            f"build it again with: hardpoint build torch"
        ) from error
    sys.modules[module] = loaded
    return loaded


def build(jobs: int = 2) -> Path:
    """Compile the adapter for the installed torch, from the sources that the package carries."""
    cmake = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
    if cmake is None:
        raise PluginError("cmake is needed to build the adapter: python -m pip install cmake ninja")
    if importlib.util.find_spec("yaml") is None:
        raise PluginError("torch's operator tables need PyYAML to be read: python -m pip install pyyaml")
    source = package_file("csrc/torch/CMakeLists.txt").parent
    core = package_file("lib/libhardpoint_core.so").parent.parent
    import hardpoint

    python_source = Path(hardpoint.__file__).parent.parent
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    with tempfile.TemporaryDirectory(prefix="hardpoint-build-") as work:
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
        configure = [
            *(cmake, *generator, "-S", str(source), "-B", work),
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DHARDPOINT_PACKAGE={core}",
            f"-DHARDPOINT_PYTHON_SOURCE={python_source}",
        ]
        subprocess.run(configure, check=True, env=environment)
        subprocess.run([cmake, "--build", work, "-j", str(jobs)], check=True, env=environment)
        built = next(Path(work).glob("_C_*.so"))
        for place in _places():
            try:
                place.mkdir(parents=True, exist_ok=True)
                return Path(shutil.copy2(built, place / built.name))
            except OSError:
                continue
    raise PluginError("no place to put the adapter: set HARDPOINT_CACHE to a folder that can be written")
