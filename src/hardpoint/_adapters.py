"""Finds, loads and builds the compiled adapters: one for each framework and minor version."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import struct
import sys
import sysconfig
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hardpoint._runtime import PluginError, cache_dir, package_file

#: A library on disk: its path, inode and modification time. A rebuilt library differs from the one it replaces.
Library = tuple[Path, int, int]


@dataclass(frozen=True)
class Adapter:
    """The adapter of a framework.

    Attributes:
        framework: Package name, ``torch`` or ``paddle``.
        installed: Returns the installed version, or None, without importing the framework.
        supported: Oldest supported and newest tested minor version, such as ``("2.11", "2.15")``.
        needs: Packages that the build imports: the module's name, and the package's.
        minutes: Typical duration of a build.
        sources: Folder of the CMake project. Default: the one in the package.
        package_folders: Folders of adapters shipped with the package. Default: those of the package.
        build_folders: Folders for adapters built on this machine, in order of preference. Default: one in the package,
            one in the cache.
    """

    framework: str
    installed: Callable[[], str | None]
    supported: tuple[str, str]
    needs: tuple[tuple[str, str], ...] = ()
    minutes: int = 3
    sources: Path | None = None
    package_folders: tuple[Path, ...] | None = None
    build_folders: tuple[Path, ...] | None = None

    def version(self) -> str:
        """Return the full version of the loaded framework, or of the installed one if it is not loaded."""
        installed, loaded = self.installed(), self._loaded_version()
        if installed is None and loaded is None:
            raise PluginError(f"{self.framework} is not installed")
        if installed and loaded and _public(installed) != _public(loaded):
            raise PluginError(
                f"{self.framework} {loaded} is loaded, but {installed} is installed now: it was replaced while this "
                "program runs; restart the program"
            )
        return loaded or installed or ""

    def minor(self) -> str:
        """Return the minor version, such as ``2.15``."""
        return _minor(self.version())

    def label(self) -> str:
        """Return framework and minor version, for messages: ``torch 2.15``."""
        return f"{self.framework} {self.minor()}"

    def file_name(self) -> str:
        """Return the name of the adapter's library, for this framework and this Python."""
        return f"_C_{self.minor().replace('.', '_')}{sysconfig.get_config_var('EXT_SUFFIX')}"

    def folders_for_builds(self) -> list[Path]:
        """Return the folders for adapters built on this machine, in order of preference."""
        if self.build_folders is not None:
            return list(self.build_folders)
        roots = (package_file("lib/libhardpoint_core.so").parent.parent, cache_dir())
        return [root / "adapters" / package_id() / self.framework for root in roots]

    def libraries(self) -> list[Library]:
        """Return all libraries for the installed framework, newest first.

        A library that was rebuilt, because the one in a read-only package does not load, is newer than that one.
        """
        name = self.file_name()
        found = []
        for path in (folder / name for folder in self._shipped_folders() + self.folders_for_builds()):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((path, status.st_ino, status.st_mtime_ns))
        return sorted(found, key=lambda library: library[2], reverse=True)

    def find(self) -> Path | None:
        """Return the path of the adapter for the installed framework, or None if it is not built."""
        return next((path for path, *_ in self.libraries() if _is_complete(path)), None)

    def load(self) -> Any:
        """Import the adapter for the installed framework. Builds it first if there is none, or none that loads."""
        if (imported := self._imported()) is not None:
            return imported
        broken: dict[Library, ImportError] = {}
        for library in self.libraries():
            try:
                return self._import(library[0])
            except ImportError as error:
                broken[library] = error
        automatic = os.environ.get("HARDPOINT_BUILD") != "0"
        if broken:
            (path, *_), reason = next(iter(broken.items()))
            # A library of the framework may be missing only because the framework is not imported yet.
            if not automatic or self._loaded_version() is None:
                raise PluginError(
                    f"Hardpoint's adapter {path} does not load with this {self.framework}: {reason}; "
                    f"rebuild it with: hardpoint build {self.framework}"
                ) from reason
        elif not automatic:
            raise PluginError(
                f"Hardpoint's adapter is not built for {self.label()}"
                f" (built for: {', '.join(self._built()) or 'none'}); build it with: hardpoint build {self.framework}"
            )
        return self._build_and_import(broken)

    def build(self, jobs: int = 2) -> Path:
        """Compile the adapter for the installed framework from the sources in the package, even if there is one."""
        from hardpoint import _adapter_build

        return _adapter_build.build(self, jobs)

    def _build_and_import(self, broken: dict[Library, ImportError]) -> Any:
        from hardpoint import _adapter_build, _build_process

        for (path, *_), error in broken.items():
            reason = str(error).removeprefix(f"{path}: ")
            _build_process.print_message(f"{path} does not load ({reason}): building it again")
        path = _adapter_build.build(self, broken=set(broken))
        try:
            return self._import(path)
        except ImportError as error:
            message = (
                f"Hardpoint's adapter {path} was just built, but does not load with this {self.framework}: {error}; "
                f"after a repair, build it again with: hardpoint build {self.framework}"
            )
            _adapter_build.remember_failure(self, path.parent, message)
            raise PluginError(message) from error

    def _import(self, path: Path) -> Any:
        if not _is_complete(path):
            raise ImportError(f"{path}: the file is incomplete")  # the loader could crash with SIGBUS
        module = self._module(self.version())
        loader = importlib.machinery.ExtensionFileLoader(module, str(path))
        spec = importlib.util.spec_from_file_location(module, path, loader=loader)
        assert spec is not None
        loaded = importlib.util.module_from_spec(spec)
        loader.exec_module(loaded)
        sys.modules[module] = loaded
        return loaded

    def _imported(self) -> Any:
        version = self._loaded_version()
        return sys.modules.get(self._module(version)) if version else None

    def _module(self, version: str) -> str:
        return f"hardpoint.{self.framework}._C_{_minor(version).replace('.', '_')}"

    def _loaded_version(self) -> str | None:
        version = getattr(sys.modules.get(self.framework), "__version__", None)
        return None if version is None else str(version)

    def _shipped_folders(self) -> list[Path]:
        import hardpoint

        if self.package_folders is not None:
            return list(self.package_folders)
        return [Path(root) / self.framework for root in hardpoint.__path__]

    def _built(self) -> list[str]:
        """Minor versions that there is an adapter for."""
        folders = self._shipped_folders() + self.folders_for_builds()
        found = {path.name.split(".")[0][3:].replace("_", ".") for folder in folders for path in folder.glob("_C_*.so")}
        return sorted(found, key=version_numbers)


@cache
def package_id() -> str:
    """Return Hardpoint's version and a checksum of everything that an adapter is compiled from.

    It names the folder of the built adapters, so an upgrade never loads an adapter that was built for another core.
    """
    from importlib.metadata import distribution

    package = distribution("hardpoint")
    inputs = re.compile(r"hardpoint/(codegen|csrc|include|ops|lib/libhardpoint_core)\b(?!.*__pycache__)")
    recorded = sorted(filter(inputs.match, (package.read_text("RECORD") or "").splitlines()))  # file names and hashes
    return f"{package.version}-{zlib.crc32(' '.join(recorded).encode()):08x}"


def version_numbers(version: str) -> list[int]:
    """Return ``[2, 15]`` for ``2.15`` or ``2.15.1+cpu``."""
    return [int(number) for number in re.findall(r"\d+", version)[:2]]


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _public(version: str) -> str:
    # The local part differs between a program and its metadata in some builds: 2.6.0a0+nv25.01 and 2.6.0a0+nv25.1.
    return version.split("+")[0]


def _is_complete(path: Path) -> bool:
    """Whether a library is an ELF file whose segments and section table lie within the file."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
            length = os.fstat(file.fileno()).st_size
            segments, sections = struct.unpack_from("<QQ", head, 32)
            segment_size, segment_count, section_size, section_count = struct.unpack_from("<HHHH", head, 54)
            file.seek(segments)
            table = file.read(segment_size * segment_count)
            # p_offset and p_filesz of each segment
            ends = [sum(struct.unpack_from("<Q16xQ", table, i * segment_size + 8)) for i in range(segment_count)]
    except (OSError, OverflowError, struct.error):
        return False
    return head[:4] == b"\x7fELF" and max([*ends, sections + section_size * section_count]) <= length
