"""The compiled adapters: one for each framework and minor version of it. Finding them, and building them here."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, package_file


@dataclass(frozen=True)
class Adapter:
    """A framework's adapter."""

    #: The framework's package, and the name of ours beside it.
    framework: str
    #: The installed version as the adapter's name has it, such as ``2_13``; imports nothing.
    minor: Callable[[], str]
    #: Packages that the build needs, with what to say where one is missing.
    needs: tuple[tuple[str, str], ...] = ()

    def _file_name(self) -> str:
        return f"_C_{self.minor()}{sysconfig.get_config_var('EXT_SUFFIX')}"

    def _places(self) -> list[Path]:
        import hardpoint
        from hardpoint.plugins import _cache_dir

        kept = _cache_dir() / "adapters" / hardpoint.__version__
        return [*(Path(root) / self.framework for root in hardpoint.__path__), kept / self.framework]

    def find(self) -> Path | None:
        """The adapter for the installed framework, or None if it is not built."""
        name = self._file_name()
        return next((place / name for place in self._places() if (place / name).exists()), None)

    def load(self) -> Any:
        """Import the adapter for the installed framework."""
        path = self.find()
        if path is None:
            built = sorted(
                {p.name.split(".")[0][3:].replace("_", ".") for d in self._places() for p in d.glob("_C_*.so")}
            )
            raise PluginError(
                f"Hardpoint's adapter is not built for {self.framework} {self.minor().replace('_', '.')}"
                f" (there is one for: {', '.join(built) or 'none'}); build it with: hardpoint build {self.framework}"
            )
        module = f"hardpoint.{self.framework}._C_{self.minor()}"
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
                f"Hardpoint's adapter {path} does not load with this {self.framework}: {error}; "
                f"build it again with: hardpoint build {self.framework}"
            ) from error
        sys.modules[module] = loaded
        return loaded

    def build(self, jobs: int = 2) -> Path:
        """Compile the adapter for the installed framework, from the sources that the package carries."""
        cmake = shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))
        if cmake is None:
            raise PluginError("cmake is needed to build the adapter: python -m pip install cmake ninja")
        for package, said in self.needs:
            if importlib.util.find_spec(package) is None:
                raise PluginError(said)
        source = package_file(f"csrc/{self.framework}/CMakeLists.txt").parent
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
            for place in self._places():
                try:
                    place.mkdir(parents=True, exist_ok=True)
                    return Path(shutil.copy2(built, place / built.name))
                except OSError:
                    continue
        raise PluginError("no place to put the adapter: set HARDPOINT_CACHE to a folder that can be written")
