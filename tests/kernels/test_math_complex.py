"""Complex functions of portable kernels (math_complex.h) against numpy in double precision."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")


def words(text: str) -> list[str]:
    return text.split()


HEADERS = Path(__file__).parents[2] / "src/hardpoint/kernels/headers"
FLAGS = words("-O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror")
DTYPES = {"c64": np.complex64, "c128": np.complex128}
Array = Any


def log1p(z: Array) -> Array:
    """Accurate log1p; numpy computes log(1 + z), which loses a small z."""
    x, y = z.real.astype(np.longdouble), z.imag.astype(np.longdouble)
    small = np.abs(z) < 0.5
    real = np.where(small, np.log1p(np.where(small, x * (2 + x) + y * y, 0)) / 2, np.log(np.hypot(1 + x, y)))
    return real.astype(np.float64) + 1j * np.arctan2(y, 1 + x).astype(np.float64)


UNARY: dict[str, Callable[[Array], Array]] = {
    **{
        name: getattr(np, name)
        for name in words("sqrt exp exp2 expm1 log log2 log10 sin cos tan sinh cosh tanh reciprocal square abs angle")
    },
    **{name: getattr(np, f"arc{name[1:]}") for name in words("asin acos atan asinh acosh atanh")},
    "log1p": log1p,
    "sinc": np.sinc,
    "neg": np.negative,
    "conj": np.conj,
    "sgn": lambda z: np.where(z == 0, 0, z / np.where(z == 0, 1, np.abs(z))),
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "isnan": np.isnan,
    "logical_not": np.logical_not,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "pow_scalar": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "polar": lambda a, b: a.real * np.exp(1j * b.real),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("math_complex")
    lines = [f'#include "{HEADERS}/math.h"', f'#include "{HEADERS}/math_complex.h"']
    for suffix in DTYPES:
        z = f"hp_{suffix}"
        lines += [
            f"void w_{name}_{suffix}(const {z}* a, {z}* out, long n) "
            f"{{ for (long i = 0; i < n; ++i) out[i] = hp_{name}_{suffix}(a[i]); }}"
            for name in UNARY
        ]
        lines += [
            f"void w_{name}_{suffix}(const {z}* a, const {z}* b, {z}* out, long n) "
            f"{{ for (long i = 0; i < n; ++i) out[i] = hp_{name}_{suffix}(a[i], b[i]); }}"
            for name in BINARY
        ]
    (folder / "all.c").write_text("\n".join(lines))
    subprocess.run(["cc", *FLAGS, "-shared", "-fPIC", "all.c", "-o", "all.so", "-lm"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "all.so"))


def call(library: ctypes.CDLL, name: str, suffix: str, *inputs: Array) -> Array:
    given = [np.ascontiguousarray(z, dtype=DTYPES[suffix]) for z in inputs]
    out = np.empty_like(given[0])
    pointers = [ctypes.c_void_p(z.ctypes.data) for z in (*given, out)]
    getattr(library, f"w_{name}_{suffix}")(*pointers, ctypes.c_long(len(out)))
    return out


def numbers(suffix: str, seed: int) -> Array:
    """Numbers of all moduli and angles, on and near the axes and the unit circle."""
    random = np.random.default_rng(seed)
    modulus = np.concatenate([random.uniform(0, 8, 4000), 10.0 ** random.uniform(-12, 3, 4000), np.ones(1000)])
    angle = np.concatenate([random.uniform(-np.pi, np.pi, 8000), 10.0 ** random.uniform(-6, 0, 1000)])
    z = modulus * np.exp(1j * angle)
    z = np.concatenate([z, random.uniform(-3, 3, 500) + 0j, 1j * random.uniform(-3, 3, 500)])
    return z.astype(DTYPES[suffix])


def compare(actual: Array, expected: Array, suffix: str) -> None:
    """Compare errors relative to the modulus, except where the type overflows or underflows."""
    limit = 1e-5 if suffix == "c64" else 1e-12
    wide = expected.astype(np.complex128)
    fits = np.isfinite(wide) & (np.abs(wide) < float(np.finfo(DTYPES[suffix]).max) / 4) & (np.abs(wide) > 1e-36)
    assert expected.dtype == bool or fits.sum() > 0.5 * fits.size
    with np.errstate(all="ignore"):
        error = np.abs(actual.astype(np.complex128) - wide) / np.abs(wide)
    worst = np.where(fits, error, 0).max()
    assert worst < limit, worst
    assert np.array_equal(actual[wide == 0], wide[wide == 0])


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(library: ctypes.CDLL, name: str, suffix: str) -> None:
    z = numbers(suffix, 1)
    if name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1", "sigmoid", "silu", "sinc"):
        # Next to a zero of sinc, no digit of a float is accurate.
        z = z[np.abs(z) < (0.9 if name == "sinc" else 80)]
    with np.errstate(all="ignore"):
        expected = UNARY[name](z.astype(np.complex128))
    compare(call(library, name, suffix, z), expected, suffix)


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_of_two_numbers(library: ctypes.CDLL, name: str, suffix: str) -> None:
    a, b = numbers(suffix, 2), numbers(suffix, 3)
    if name.startswith("pow"):
        keep = np.abs(b) < 4
        a, b = a[keep], b[keep]
    if name in ("eq", "ne"):
        b[::2] = a[::2]
        b[1::4] = a[1::4].conj()
    if name.startswith("logical"):
        a[::2], b[::3] = 0, 0
    with np.errstate(all="ignore"):
        expected = BINARY[name](a.astype(np.complex128), b.astype(np.complex128))
    compare(call(library, name, suffix, a, b), expected, suffix)


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("name", words("sqrt log asin acos atan asinh acosh atanh log1p"))
def test_branch_cuts_follow_the_sign_of_zero(library: ctypes.CDLL, name: str, suffix: str) -> None:
    parts = [x * s for x in (0.25, 0.5, 2.0, 3.5) for s in (1.0, -1.0)]
    zeros = (0.0, -0.0)
    z = np.array([complex(x, y) for x in parts for y in zeros] + [complex(y, x) for x in parts for y in zeros])
    z = z.astype(DTYPES[suffix])
    expected = UNARY[name](z.astype(np.complex128))
    actual = call(library, name, suffix, z).astype(np.complex128)
    assert np.abs(actual - expected).max() < (1e-6 if suffix == "c64" else 1e-14)


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("name", words("sqrt exp log sin cos sinh cosh tanh tan asin acos atan asinh acosh atanh abs"))
def test_special_values(library: ctypes.CDLL, name: str, suffix: str) -> None:
    """Infinities, NaN, zeros and signs are as in C99."""
    parts = (0.0, -0.0, 1.0, -2.0, math.inf, -math.inf, math.nan)
    z = np.array([complex(x, y) for x in parts for y in parts]).astype(DTYPES[suffix])
    with np.errstate(all="ignore"):
        expected = UNARY[name](z.astype(np.complex128)).astype(np.complex128)
    actual = call(library, name, suffix, z).astype(np.complex128)
    # If a part of the input is NaN, C99 does not specify which part of the result is NaN.
    rough = np.isnan(z) & np.isnan(expected) & ~np.isinf(expected)
    wrong = [
        (complex(z[i]), complex(actual[i]), complex(expected[i]))
        for i in range(len(z))
        if not (np.isnan(actual[i]) if rough[i] else same_special(actual[i], expected[i]))
    ]
    assert not wrong


def same_special(a: complex, b: complex) -> bool:
    if np.isinf(b):
        return bool(np.isinf(a))
    signed = not np.isnan(b)  # C99 does not specify the sign of a zero next to NaN
    return all(
        (np.isnan(x) and np.isnan(y))
        or (abs(x - y) < 1e-5 and (not signed or math.copysign(1, x) == math.copysign(1, y)))
        for x, y in ((a.real, b.real), (a.imag, b.imag))
    )


def test_compiles_without_doubles(tmp_path: Path) -> None:
    """HP_NO_F64 removes all double functions, as on an OpenCL device without cl_khr_fp64."""
    (tmp_path / "single.c").write_text(f'#include "{HEADERS}/math.h"\n#include "{HEADERS}/math_complex.h"\n')
    flags = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-DHP_NO_F64"]
    expanded = subprocess.run(
        ["cc", *flags, "-E", "-P", "single.c"], cwd=tmp_path, check=True, capture_output=True, text=True
    ).stdout
    assert "hp_sqrt_c64" in expanded
    assert "c128" not in expanded
    subprocess.run(["cc", *flags, "-fsyntax-only", "single.c"], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_cuda_dialect_compiles(tmp_path: Path) -> None:
    """A kernel that calls every function compiles to PTX."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed: the CUDA dialect is not compiled here")
    lines = [f'#include "{HEADERS}/math.h"', f'#include "{HEADERS}/math_complex.h"']
    for suffix in DTYPES:
        calls = [f"hp_{name}_{suffix}(a)" for name in UNARY] + [f"hp_{name}_{suffix}(a, b)" for name in BINARY]
        body = "\n".join(f"  *out++ = {text};" for text in (*calls, f"hp_lerp_{suffix}(a, b, a)"))
        lines.append(f"__global__ void k_{suffix}(hp_{suffix}* out, hp_{suffix} a, hp_{suffix} b) {{\n{body}\n}}")
    (tmp_path / "all.cu").write_text("\n".join(lines))
    command = ["nvcc", "-arch=sm_90", "-Werror=all-warnings", "-ptx", "all.cu", "-o", "all.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
