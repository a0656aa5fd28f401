"""Every prebuilt portable kernel compiles for NVIDIA devices. This needs their compiler, NVRTC, but no device."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import hardpoint.kernels
from hardpoint.devices import cuda
from hardpoint.kernels.fused import Region, Step
from hardpoint.kernels.generator import generate

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


def compiled(source: str, *definitions: str) -> tuple[str, str]:
    """Compile: the assembly, or nothing and the compiler's own words where it refuses."""
    library = nvrtc()
    assert library is not None
    program = ctypes.c_void_p()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None) == 0
    options = (*OPTIONS, *(f"-D{definition}".encode() for definition in definitions))

    def text(what: str) -> str:
        size = ctypes.c_size_t()
        getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        found = ctypes.create_string_buffer(size.value)
        getattr(library, f"nvrtcGet{what}")(program, found)
        return found.value.decode()

    # NVRTC 12 leaves the thread with another locale, as plugins/cuda/nvrtc.cpp says.
    libc = ctypes.CDLL(None)
    libc.uselocale.restype, libc.uselocale.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    locale = libc.uselocale(None)
    try:
        if library.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) == 0:
            return text("PTX"), ""
        return "", text("ProgramLog")
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
        libc.uselocale(locale)


def complaint(source: str, *definitions: str) -> str:
    """The compiler's own words where it refuses, else nothing."""
    return compiled(source, *definitions)[1]


def assembly(name: str, description: str) -> str:
    """A kernel as a device with groups gets it, compiled."""
    made = generate(name, description, "cuda", GROUP_SIZE)
    assert made is not None, name
    found, refused = compiled(made[0])
    assert not refused, refused
    return found


def prebuilt_kernels() -> Iterator[tuple[str, str]]:
    """The kernels that are compiled for sim when the package is built, as a device with groups asks for them."""
    listed = Path(hardpoint.kernels.__file__).parent / "prebuilt_kernels.txt"
    for line in listed.read_text().splitlines():
        name, _, description = line.partition("\t")
        if not name.startswith("convolution_cpu:"):  # for groups of one work-item
            yield name, description.replace("BLOCK=128", "BLOCK=32")


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_prebuilt_kernels_compile() -> None:
    def attempt(kernel: tuple[str, str]) -> str:
        made = generate(*kernel, "cuda", GROUP_SIZE)
        assert made is not None, kernel
        found = complaint(made[0])
        return f"{kernel}: {found}" if found else ""

    with ThreadPoolExecutor(2) as pool:
        assert [text for text in pool.map(attempt, prebuilt_kernels()) if text] == []


def step(op: str, *inputs: str, result: str = "f32", attributes: tuple[str, ...] = ()) -> Step:
    return Step(op, 0, "f32", result, inputs, attributes)


SUM = (step("add", "i0", "i1", attributes=("=1.0",)), step("exp", "s0"))
#: Regions with their layouts, and whether all that is read and written side by side is so in vectors.
FUSED = {
    "one dimension": ("1 contiguous,contiguous,contiguous", Region(("f32", "f32"), (), SUM, (1,)), True),
    "broadcast": ("2 contiguous,contiguous,broadcast", Region(("f32", "f32"), (), SUM, (1,)), True),
    "bf16": (
        "1 contiguous,contiguous,contiguous",
        Region(("bf16", "bf16"), (), (SUM[0], step("exp", "s0", result="bf16")), (1,)),
        True,
    ),
    "numbers": (
        "3 contiguous,contiguous",
        Region(("f32",), (False, True), (step("add", "i0", "n1", attributes=("n0",)),), (0,)),
        True,
    ),
    "several outputs": (
        "2 contiguous,contiguous,contiguous,contiguous",
        Region(("f32", "f16"), (), (*SUM, step("gt", "s1", "i0", result="bool")), (1, 2)),
        True,
    ),
    "strides": ("3 contiguous,strided,contiguous", Region(("f32", "f32"), (), SUM, (1,)), False),
    "another order": (
        "2 contiguous,strided,contiguous",
        Region(("f32",), (), (step("exp", "i0"), step("exp", "s0")), (0, 1)),
        False,
    ),
}


@needs_nvrtc
@pytest.mark.parametrize("name", FUSED)
def test_fused_kernels_compile(name: str) -> None:
    form, region, vectors = FUSED[name]
    dimensions, layout = form.split()
    text = assembly("fused", f"dimensions={dimensions} layout={layout} region={region.text()}")
    assert ("ld.global.v" in text and "st.global.v" in text) == vectors


#: Kernels with the vectors that they read and write.
VECTORS = [
    (
        "gelu",
        "compute=f32 outputs=1 variant=0 dimensions=1 operands=f32:contiguous,f32:contiguous",
        "ld.global.v4.f32",
        "st.global.v4.f32",
    ),
    ("copy:strided", "R=bf16 T=f32 DIMS=1 INNER=2", "ld.global.v4.f32", "st.global.v4.u16"),
    ("copy:strided", "R=f32 T=bf16 DIMS=1 INNER=2", "ld.global.v4.u16", "st.global.v4"),
    ("copy:strided", "R=i16 T=i16 DIMS=4 INNER=2", "ld.global.v4.u32", "st.global.v4.u32"),
    ("softmax:rows", "T=f32 R=f32 LOG=1", "ld.global.v4.f32", "st.global.v4.f32"),
    ("softmax:rows", "T=bf16 R=bf16 LOG=0", "ld.global.v4.u32", "st.global.v4.u32"),
    ("softmax:rows_backward", "T=f32 R=f32 LOG=1", "ld.global.v4.f32", "st.global.v4.f32"),
    ("random:dropout", "T=f32", "ld.global.v4.f32", "st.global.v4.f32"),
    ("random:dropout_backward", "T=f32", "ld.global.v4.f32", "st.global.v4.f32"),
    ("foreach:map1", "T=f32 SLOTS=96 OP=0", "ld.global.v4.f32", "st.global.v4.f32"),
    ("foreach:map3", "T=bf16 SLOTS=54 OP=41", "ld.global.v4.u32", "st.global.v4.u32"),
    (
        "normalization:rows_backward",
        "T=f32 W=f32 RMS=0 HAS_WEIGHT=1 WANTED=1 PARTS=1",
        "ld.global.v4.f32",
        "st.global.v4.f32",
    ),
]


@needs_nvrtc
@pytest.mark.parametrize(("name", "description", "read", "written"), VECTORS, ids=lambda value: value)
def test_kernels_use_vectors(name: str, description: str, read: str, written: str) -> None:
    text = assembly(name, description)
    assert read in text
    assert written in text
    assert "__local_depot" not in text  # nothing is kept in memory that should be in registers


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [0, 1, 2])
def test_attention_compiles(dtype: int) -> None:
    """The plug-in's own kernels; tests/plugins/test_cuda_attention.py says that they are right."""
    plugin = Path(__file__).parents[2] / "plugins" / "cuda"
    texts = {path.name: path.read_text().replace('R"cuda(', "").replace(')cuda"', "") for path in plugin.glob("*.inc")}
    assert complaint(texts["attention_common.inc"] + texts["attention_softmax.inc"], f"DTYPE={dtype}") == ""
    shared = texts["attention_common.inc"] + texts["flash_tiles.inc"]
    for size in (64, 128) if dtype else ():
        for drops in (0, 1):
            given = (f"DTYPE={dtype}", f"DIM={size}", f"DROPS={drops}")
            for name in ("flash_forward.inc", "flash_backward.inc"):
                assert complaint(shared + texts[name], *given) == ""


@needs_nvrtc
def test_gradients_of_pooling_compile() -> None:
    """A kernel that only devices with groups ask for."""
    assert "st.global" in assembly("pooling:gather", "T=bf16 WINDOW=0")


@needs_nvrtc
def test_what_does_not_compile_is_told() -> None:
    assert "undefined" in complaint('extern "C" __global__ void f(float* p) { *p = nothing; }')
