"""Builds a wheel that installs the plug-in into ``paddle_custom_device``, where Paddle looks for plug-ins.

CUSTOM_CPU_LIBRARY names a library built by CMake to pack as is; without it, setuptools compiles the plug-in.
"""

import importlib.util
import os
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

PADDLE = Path(importlib.util.find_spec("paddle").submodule_search_locations[0])

plugin = Extension(
    "paddle_custom_device.libpaddle_custom_cpu",
    sources=["plugin.cpp", "device.cpp", "memory.cpp", "stream.cpp", *map(str, Path("kernels").glob("*.cpp"))],
    include_dirs=[str(PADDLE / "include")],
    define_macros=[("PADDLE_WITH_CUSTOM_DEVICE", None)],
    extra_compile_args=["-std=c++17", "-O2", "-g0"],
    library_dirs=[str(PADDLE / "libs")],
    extra_link_args=["-l:libphi_core.so", "-l:libcommon.so"],
    language="c++",
)


class BuildPlugin(build_ext):
    """A plug-in is not a Python module: it has a plain file name and no PyInit function."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def build_extension(self, ext: Extension) -> None:
        if ready := os.environ.get("CUSTOM_CPU_LIBRARY"):
            self.mkpath(os.path.dirname(self.get_ext_fullpath(ext.name)))
            self.copy_file(ready, self.get_ext_fullpath(ext.name))
        else:
            super().build_extension(ext)


class AnyPython(bdist_wheel):
    """The library does not use the Python API: one wheel works with every Python 3."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(ext_modules=[plugin], packages=[], cmdclass={"build_ext": BuildPlugin, "bdist_wheel": AnyPython})
