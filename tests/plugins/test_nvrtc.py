"""Every usual portable kernel compiles for NVIDIA devices. This needs their compiler, NVRTC, but no device."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hardpoint.kernels
from hardpoint import cuda
from hardpoint.kernels.source import generate

#: For the H100 and H200, with the options of plugins/cuda/nvrtc.cpp.
OPTIONS = (b"--gpu-architecture=sm_90", b"--fmad=false", b"--disable-warnings")
GROUP_SIZE = 256


@functools.cache
def nvrtc() -> ctypes.CDLL | None:
    for name in ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"):
        for folder in [*cuda.library_folders(), ""]:
            try:
                return ctypes.CDLL(str(Path(folder) / name))
            except OSError:
                continue
    return None


needs_nvrtc = pytest.mark.skipif(
    nvrtc() is None, reason="NVRTC is not installed: python -m pip install nvidia-cuda-nvrtc-cu12"
)


def complaint(source: str, *definitions: str) -> str:
    """Compile; the compiler's own words where it refuses, else nothing."""
    library = nvrtc()
    assert library is not None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    options = (*OPTIONS, *(f"-D{definition}".encode() for definition in definitions))
    try:
        if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) == 0:
            return ""
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        return log.value.decode()
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def usual() -> Iterator[tuple[str, str]]:
    """The kernels that are compiled for sim when the package is built, as a device with groups asks for them."""
    listed = Path(hardpoint.kernels.__file__).parent / "usual.txt"
    for line in listed.read_text().splitlines():
        name, _, description = line.partition("\t")
        if not name.startswith("convolution_vectors:"):  # for groups of one work-item
            yield name, description.replace("BLOCK=128", "BLOCK=32")


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_usual_kernels_compile() -> None:
    def attempt(kernel: tuple[str, str]) -> str:
        made = generate(*kernel, "cuda", GROUP_SIZE)
        assert made is not None, kernel
        found = complaint(made[0])
        return f"{kernel}: {found}" if found else ""

    with ThreadPoolExecutor(2) as pool:
        assert [text for text in pool.map(attempt, usual()) if text] == []


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [0, 1, 2])
def test_attention_compiles(dtype: int) -> None:
    """The plug-in's own kernels; tests/plugins/test_cuda_attention.py says that they are right."""
    plugin = Path(__file__).parents[2] / "plugins" / "cuda"
    texts = {path.name: path.read_text().replace('R"cuda(', "").replace(')cuda"', "") for path in plugin.glob("*.inc")}
    assert complaint(texts["attention_common.inc"] + texts["weigh.inc"], f"DTYPE={dtype}") == ""
    for size in (64, 128) if dtype else ():
        given = (f"DTYPE={dtype}", f"DIM={size}", "FORWARD", "BACKWARD")
        assert complaint(texts["attention_common.inc"] + texts["flash.inc"], *given) == ""


@needs_nvrtc
def test_what_does_not_compile_is_told() -> None:
    assert "undefined" in complaint('extern "C" __global__ void f(float* p) { *p = nothing; }')
