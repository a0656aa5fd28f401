"""Setuptools extensions for plug-ins, kernels and torch operators, in the style of torch's ``CppExtension``.

A project's ``setup.py`` is two lines::

    from hardpoint_build.extension import DeviceExtension, setup

    setup(ext_modules=[DeviceExtension("mychip.libmychip", ["csrc/runtime.c", "csrc/kernels.c"])])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import setuptools
from setuptools import Extension
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

from hardpoint_build.paths import exports, include_dirs

#: Libraries built by CMake, separated by ``:``. An extension with the same file name is copied instead of compiled.
LIBRARIES = "HARDPOINT_LIBRARIES"
_CPP = (".cc", ".cpp", ".cxx")


def _with(given: Sequence[str] | None, ours: Sequence[Any]) -> list[str]:
    return [*(given or ()), *map(str, ours)]


def _headers(folders: Sequence[Any]) -> list[str]:
    """Return compiler flags that add include folders as system folders, to silence their warnings."""
    return [part for folder in folders for part in ("-isystem", str(folder))]


class DeviceExtension(Extension):  # type: ignore[misc]
    """A plug-in or kernel library in C or C++, against ``hardpoint/plugin.h`` and TVM-FFI.

    ``mychip.libmychip`` becomes the file ``libmychip.so`` of the package ``mychip``. It exports only
    ``hp_plugin_init`` and the kernels (``__tvm_ffi_*``).

    Args:
        name: Dotted name of the library, such as ``mychip.libmychip``.
        sources: C or C++ files.
        options: Options of setuptools' ``Extension``.
    """

    def __init__(self, name: str, sources: Sequence[str], **options: Any) -> None:
        is_cpp = any(source.endswith(_CPP) for source in sources)
        standard = "-std=c++17" if is_cpp else "-std=c11"
        flags = [
            standard,
            "-O3",
            "-g0",
            "-Wall",
            "-Wextra",
            "-fvisibility=hidden",
            f"-ffile-prefix-map={os.getcwd()}=.",
        ]
        options["extra_compile_args"] = [*flags, *_headers(include_dirs()), *options.get("extra_compile_args", ())]
        options["extra_link_args"] = _with(
            options.get("extra_link_args"), [f"-Wl,--version-script={exports()}", "-Wl,--strip-all"]
        )
        super().__init__(name, list(sources), language="c++" if is_cpp else "c", **options)


class TorchExtension(Extension):  # type: ignore[misc]
    """A Python module of torch operators in C++, with the headers of torch, TVM-FFI and Hardpoint.

    The wheel works with one minor version of torch and should require it: see :func:`torch_requirement`.
    """

    def __init__(self, name: str, sources: Sequence[str], **options: Any) -> None:
        # A build must not mount a device.
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import torch
        from torch.utils import cpp_extension

        # No -O flag: Python's default or CFLAGS sets the optimization level.
        flags = ["-std=c++20", "-g0", "-fvisibility=hidden", f"-ffile-prefix-map={os.getcwd()}=."]
        flags += _headers([*cpp_extension.include_paths(), *include_dirs()])
        options["extra_compile_args"] = [*flags, *options.get("extra_compile_args", ())]
        options["define_macros"] = [
            *options.get("define_macros", ()),
            ("TORCH_EXTENSION_NAME", name.rpartition(".")[2]),
            ("_GLIBCXX_USE_CXX11_ABI", str(int(torch._C._GLIBCXX_USE_CXX11_ABI))),
        ]
        options["library_dirs"] = _with(options.get("library_dirs"), cpp_extension.library_paths())
        options["libraries"] = _with(options.get("libraries"), ["c10", "torch", "torch_cpu", "torch_python"])
        options["extra_link_args"] = _with(options.get("extra_link_args"), ["-Wl,--strip-all"])
        super().__init__(name, list(sources), language="c++", **options)


def torch_requirement() -> str:
    """Return the wheel requirement of a :class:`TorchExtension`, such as ``torch==2.13.*``."""
    return f"torch=={'.'.join(version('torch').split('.')[:2])}.*"


class BuildExtension(build_ext):  # type: ignore[misc]
    """Builds extensions. A :class:`DeviceExtension` gets a plain file name and no Python init function."""

    def _is_plain(self, fullname: str) -> bool:
        return isinstance(self.ext_map.get(fullname), DeviceExtension)

    def get_ext_filename(self, fullname: str) -> str:
        """Return the extension's file name."""
        if self._is_plain(fullname):
            return f"{fullname.replace('.', os.sep)}.so"
        return str(super().get_ext_filename(fullname))

    def get_export_symbols(self, ext: Extension) -> list[str]:
        """Return the exported symbols."""
        return [] if isinstance(ext, DeviceExtension) else list(super().get_export_symbols(ext))

    def build_extension(self, ext: Extension) -> None:
        """Compile the extension, or copy the library built by CMake."""
        target = self.get_ext_fullpath(ext.name)
        ready = [p for p in os.environ.get(LIBRARIES, "").split(":") if p and Path(p).name == Path(target).name]
        if ready and isinstance(ext, DeviceExtension):
            self.mkpath(str(Path(target).parent))
            self.copy_file(ready[0], target)
        else:
            self._announce_sources()
            super().build_extension(ext)

    def _announce_sources(self) -> None:
        """Print the name of each source before it is compiled, since some take a minute."""
        compile_one = self.compiler._compile

        def announce(obj: str, src: str, *options: Any) -> None:
            print(f"hardpoint: compiling {src}", file=sys.stderr, flush=True)
            compile_one(obj, src, *options)

        if not getattr(self.compiler, "announces", False):
            self.compiler._compile, self.compiler.announces = announce, True


class BuildWheel(bdist_wheel):  # type: ignore[misc]
    """Tags a wheel without Python modules in C for every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the wheel's Python, ABI and platform tags."""
        tag: tuple[str, str, str] = super().get_tag()
        extensions = self.distribution.ext_modules or []
        if extensions and all(isinstance(e, DeviceExtension) for e in extensions):
            return "py3", "none", tag[2]
        return tag


def setup(**arguments: Any) -> Any:
    """Call setuptools' ``setup`` with :class:`BuildExtension` and :class:`BuildWheel`."""
    commands = {"build_ext": BuildExtension, "bdist_wheel": BuildWheel, **arguments.pop("cmdclass", {})}
    return setuptools.setup(cmdclass=commands, **arguments)
