"""Scalar functions of portable kernels (math.h, math_special.h) against torch's CPU operators."""

from __future__ import annotations

import ctypes
import math
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
S = torch.special


def words(text: str) -> list[str]:
    return text.split()


HEADERS = Path(__file__).parents[2] / "src/hardpoint/kernels/headers"
FLAGS = words("-O3 -march=x86-64-v3 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -Werror")
Tensor = Any
DTYPES = {"f32": torch.float32, "f64": torch.float64}
INTEGERS = {"i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
TOLERANCES = {"f32": (1.3e-6, 1e-5), "f64": (1e-7, 1e-7)}  # rtol, atol
SPECIALS = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1e-40, -1e-40, 1e-30, 1e30, -1e30, 3.4e38]


class Real(NamedTuple):
    """A real function. ``ulp`` is the maximum float error against the true value, in units in the last place."""

    name: str
    reference: Callable[..., Tensor]
    arity: int = 1
    low: float = -20.0
    high: float = 20.0
    ulp: float | None = None
    specials: list[float] = SPECIALS
    constants: tuple[float, ...] = ()  # arguments after the tensors
    degree: bool = False  # the second argument is a polynomial's degree
    better: Callable[[Tensor], Tensor] | None = None  # accurate where torch's double result has an error of 1e-6


def derivative(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Derivative of a pointwise function by torch's autograd."""

    def reference(x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    return reference


def softplus(x: Tensor) -> Tensor:
    return F.softplus(x, beta=2.0, threshold=10.0)


def elu(x: Tensor) -> Tensor:
    return torch.ops.aten.elu(x, 1.5, 0.75, 1.25)


def scipys(name: str) -> Callable[[Tensor], Tensor]:
    """SciPy's function of that name, or its first result if it returns several."""

    def reference(x: Tensor) -> Tensor:
        special = pytest.importorskip("scipy.special", reason="torch's own double is off by 1e-6 here")
        result = getattr(special, name)(x.double().numpy())
        return torch.from_numpy(result[0] if isinstance(result, tuple) else result)

    return reference


FINITE = [x for x in SPECIALS if math.isfinite(x)]
MODERATE = [0.0, -0.0, 1e-40, 1e-30, 1.0, -1.0, 0.5, math.nan]
BESSEL = [*MODERATE, math.inf, -math.inf]
REALS = [
    *(
        Real(name, getattr(torch, name))
        for name in words(
            "abs neg sign sgn ceil floor trunc round frac reciprocal sqrt rsqrt square exp2 log2 log10 "
            "tan atan sinh cosh asinh acosh erfc lgamma i0 sinc isnan isinf isfinite signbit"
        )
    ),
    *(Real(name, getattr(torch, name), low=-1.1, high=1.1) for name in words("asin acos atanh erfinv")),
    *(Real(name, getattr(torch, name), ulp=3.0) for name in words("tanh sigmoid erf")),
    Real("digamma", torch.digamma, low=-20.13, high=20.07),  # no grid points next to a pole
    Real("exp", torch.exp, low=-105.0, high=90.0, ulp=3.0),
    Real("expm1", torch.expm1, low=-30.0, high=90.0, ulp=3.0),
    Real("log", torch.log, low=0.0, high=10.0, ulp=3.0),
    Real("log1p", torch.log1p, low=-1.0, high=10.0, ulp=3.0),
    Real("sin", torch.sin, low=-1e5, high=1e5, ulp=3.0),
    Real("cos", torch.cos, low=-1e5, high=1e5, ulp=3.0),
    Real("logit", lambda x: torch.logit(x), low=-0.1, high=1.1, constants=(-1.0,)),
    Real("logit", lambda x: torch.logit(x, eps=0.2), low=-0.1, high=1.1, constants=(0.2,)),
    *(
        Real(
            "logit_backward",
            lambda g, x, e=eps: torch.ops.aten.logit_backward(g, x, e),
            arity=2,
            low=-0.1,
            high=1.1,
            constants=(-1.0 if eps is None else eps,),
            specials=FINITE,
        )
        for eps in (None, 0.2)
    ),
    *(Real("round_decimals", lambda x, d=d: torch.round(x, decimals=d), constants=(d,)) for d in (2, 0, -1)),
    Real("finite", lambda x: torch.nan_to_num(x, 1.5, 7.0, -3.0), constants=(1.5, 7.0, -3.0)),
    Real("ndtri", S.ndtri, low=-0.1, high=1.1),
    *(Real(name, getattr(S, name)) for name in words("i0e i1 i1e log_ndtr ndtr entr erfcx spherical_bessel_j0")),
    *(
        Real(f"bessel_{name}", getattr(S, f"bessel_{name}"), low=-40.0, high=40.0, specials=BESSEL, better=scipys(name))
        for name in ("j0", "j1", "y0", "y1")
    ),
    *(
        Real(name, getattr(S, name), low=-40.0, high=40.0, specials=BESSEL)
        for name in words(
            "modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 "
            "scaled_modified_bessel_k0 scaled_modified_bessel_k1"
        )
    ),
    Real("airy_ai", S.airy_ai, low=-15.0, high=15.0, specials=MODERATE, better=scipys("airy")),
    *(
        Real(name, getattr(torch, name), arity=2)
        for name in words(
            "fmod remainder floor_divide pow atan2 hypot copysign nextafter maximum minimum fmax fmin xlogy "
            "logaddexp logaddexp2 heaviside"
        )
    ),
    Real("pow", torch.pow, arity=2, low=0.0, high=10.0, ulp=3.0),
    Real("trunc_divide", lambda a, b: torch.div(a, b, rounding_mode="trunc"), arity=2),
    Real("xlog1py", S.xlog1py, arity=2, low=-1.0, high=10.0),
    Real("ldexp", lambda x, n: torch.ldexp(x, n), arity=2, specials=[0.0, -0.0, 3.0, -4.0, 140.0, -140.0, math.inf]),
    Real("zeta", S.zeta, arity=2, low=0.0, high=15.0, specials=[1.0, 2.0, 3.0, 0.0, 0.5, 20.0, 1.5, 1e3]),
    Real("zeta", lambda x, q: S.zeta(x, q), arity=2, specials=[2.0, 4.0, 7.0, -2.5, -7.25, -3.0], low=1.0, high=1.0),
    *(
        Real(
            name,
            getattr(torch, name),
            arity=2,
            low=0.0,
            high=high,
            specials=[0.0, 1e-30, 1.0, math.inf, math.nan, -1.0],
        )
        for name in ("igamma", "igammac")
        for high in (3.0, 30.0, 400.0)
    ),
    *(
        Real(name, getattr(S, name), arity=2, low=-1.2, high=1.2, degree=True, specials=[0.0, 1.0, -1.0, 0.5, 2.0, 3.0])
        for name in words(
            "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
            "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
            "shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l "
            "legendre_polynomial_p"
        )
    ),
    Real("softplus", softplus, constants=(2.0, 10.0)),
    Real("d_softplus", derivative(softplus), constants=(2.0, 10.0)),
    Real("elu", elu, constants=(1.5, 0.75, 1.25)),
    Real("d_elu", derivative(elu), constants=(1.5, 0.75, 1.25)),
    Real("celu", lambda x: F.celu(x, 1.7), constants=(1.7,)),
    Real("d_celu", derivative(lambda x: F.celu(x, 1.7)), constants=(1.7,)),
    Real("gelu_erf", F.gelu),
    Real("gelu_tanh", lambda x: F.gelu(x, approximate="tanh")),
    Real("d_gelu_erf", derivative(F.gelu), specials=[0.0, -0.0, math.nan, 1e-30, 1.0]),
    Real(
        "d_gelu_tanh", derivative(lambda x: F.gelu(x, approximate="tanh")), specials=[0.0, -0.0, math.nan, 1e-30, 1.0]
    ),
    Real("log_sigmoid", F.logsigmoid),
    Real("d_log_sigmoid", derivative(F.logsigmoid)),
    *(Real(name, getattr(F, name)) for name in words("silu mish selu hardswish hardsigmoid")),
    *(Real(f"d_{name}", derivative(getattr(torch, name))) for name in words("sigmoid tanh")),
    *(Real(f"d_{name}", derivative(getattr(F, name)), specials=FINITE) for name in words("silu mish")),
    *(Real(f"d_{name}", derivative(getattr(F, name))) for name in words("selu hardswish hardsigmoid")),
]
POLYGAMMA = [0, 1, 2, 3, 6]
INTEGER = {
    "floor_divide": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc_divide": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "gcd": torch.gcd,
    "lcm": torch.lcm,
    "pow": torch.pow,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_right_shift": torch.bitwise_right_shift,
}
HOT = words("exp log tanh sigmoid erf sin cos gelu_erf gelu_tanh silu expm1 log1p softplus")
INTEGER_RESULT = {"isnan", "isinf", "isfinite", "signbit"}


def hot_wrappers() -> str:
    """C source with a loop over each function that must vectorize, and over the libm functions for comparison."""
    lines = [f'#include "{HEADERS}/math.h"']
    for name in HOT:
        extra = ", 1.0f, 20.0f" if name == "softplus" else ""
        lines.append(
            f"void hot_{name}(const float* restrict a, float* restrict out, long n) {{\n"
            f"  for (long i = 0; i < n; ++i) out[i] = hp_{name}_f32(a[i]{extra});\n}}"
        )
    for name in ("exp", "erf", "tanh", "log1p"):
        lines.append(
            f"void libm_{name}(const float* restrict a, float* restrict out, long n) {{\n"
            f"  for (long i = 0; i < n; ++i) out[i] = __builtin_{name}f(a[i]);\n}}"
        )
    return "\n".join(lines)


def wrappers() -> str:
    """C source that applies every function to arrays."""
    lines = [f'#include "{HEADERS}/math.h"', f'#include "{HEADERS}/math_special.h"']
    seen = set()
    for case in REALS:
        if case.name in seen:
            continue
        seen.add(case.name)
        for suffix, c_type in (("f32", "float"), ("f64", "double")):
            result = "unsigned char" if case.name in INTEGER_RESULT else c_type
            arguments = ", ".join(
                [f"a[{k}][i]" for k in range(case.arity)] + [f"k[{k}]" for k in range(len(case.constants))]
            )
            called = f"hp_{case.name}_{suffix}({arguments})"
            parameters = f"{c_type}* const* a, const {c_type}* k, {result}* restrict out, long n"
            lines.append(
                f"void w_{case.name}_{suffix}({parameters}) {{\n"
                f"  (void)k;\n  for (long i = 0; i < n; ++i) out[i] = ({result}){called};\n}}"
            )
    for suffix, c_type in (("f32", "float"), ("f64", "double")):
        lines.append(
            f"void w_polygamma_{suffix}(int n, {c_type}* x, {c_type}* out, long size) {{\n"
            f"  for (long i = 0; i < size; ++i) out[i] = hp_polygamma_{suffix}(n, x[i]);\n}}"
        )
    for suffix in INTEGERS:
        for name in INTEGER:
            lines.append(
                f"void w_{name}_{suffix}(const hp_{suffix}* a, const hp_{suffix}* b, hp_{suffix}* out, long n) {{\n"
                f"  for (long i = 0; i < n; ++i) out[i] = hp_{name}_{suffix}(a[i], b[i]);\n}}"
            )
    return "\n".join(lines)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("math")
    (folder / "wrappers.c").write_text(wrappers())
    command = ["cc", *FLAGS, "-std=gnu11", "-shared", "-fPIC", "wrappers.c", "-o", "wrappers.so", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "wrappers.so"))


def pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())


def call(library: ctypes.CDLL, case: Real, suffix: str, inputs: list[Tensor]) -> Tensor:
    dtype = DTYPES[suffix]
    result = torch.empty(inputs[0].shape, dtype=torch.uint8 if case.name in INTEGER_RESULT else dtype)
    pointers = (ctypes.c_void_p * len(inputs))(*(x.data_ptr() for x in inputs))
    constants = torch.tensor(case.constants, dtype=dtype)
    getattr(library, f"w_{case.name}_{suffix}")(
        pointers, pointer(constants), pointer(result), ctypes.c_long(len(result))
    )
    return result


def inputs_of(case: Real, dtype: Any) -> list[Tensor]:
    """Grid, random and special values; for two arguments, random pairs and all pairs of special values."""
    generator = torch.Generator().manual_seed(7)
    span = case.high - case.low
    random = [torch.rand(4000, generator=generator, dtype=torch.float64) * span + case.low for _ in range(case.arity)]
    special = torch.tensor(case.specials, dtype=torch.float64)
    if case.arity == 1:
        grid = torch.linspace(case.low, case.high, 8001, dtype=torch.float64)
        near_zero = 10.0 ** torch.linspace(-12, 0, 200, dtype=torch.float64)
        return [torch.cat([grid, *random, near_zero, -near_zero, special]).to(dtype)]
    first, second = torch.meshgrid(special, special, indexing="ij")
    if case.degree:
        degrees = torch.tensor([-1.0, 0.0, 1.0, 2.0, 2.7, 3.0, 5.0, 7.0, 8.0, 12.0], dtype=torch.float64)
        random[1] = degrees.repeat(400)
        first, second = torch.meshgrid(special, degrees, indexing="ij")
    return [torch.cat([a, b.reshape(-1)]).to(dtype) for a, b in zip(random, (first, second), strict=True)]


def assert_close(result: Tensor, references: list[Tensor], inputs: list[Tensor], rtol: float, atol: float) -> None:
    """Like torch.testing.assert_close, but to any of the references. Reports the arguments with the largest error."""
    bad = torch.ones(result.shape, dtype=torch.bool)
    for expected in references:
        same = (result == expected) | (result.isnan() & expected.isnan())
        bad &= ~same & ~((result - expected).abs() <= atol + rtol * expected.abs())
    if bad.any():
        expected = references[0]
        error = ((result - expected).abs() / (atol + rtol * expected.abs())).nan_to_num(math.inf)
        worst = int(torch.where(bad, error, -1.0).argmax())
        values = ", ".join(repr(x[worst].item()) for x in inputs)
        pytest.fail(f"f({values}) is {result[worst].item()!r}, not {expected[worst].item()!r}; {int(bad.sum())} wrong")


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("case", REALS, ids=lambda case: f"{case.name}-{case.low:g}..{case.high:g}")
def test_real_functions_agree_with_torch(library: ctypes.CDLL, case: Real, suffix: str) -> None:
    dtype = DTYPES[suffix]
    inputs = inputs_of(case, dtype)
    result = call(library, case, suffix, inputs)
    if case.name in INTEGER_RESULT:
        assert torch.equal(result.bool(), case.reference(*inputs))
        return
    references = [case.reference(*inputs)]
    if suffix == "f32":  # accept torch's float result or the more accurate double one
        references.append(case.reference(*(x.double() for x in inputs)).float())
    if case.better:
        references.append(case.better(*inputs).to(dtype))
    assert_close(result, references, inputs, *TOLERANCES[suffix])


@pytest.mark.parametrize("case", [case for case in REALS if case.ulp], ids=lambda case: case.name)
def test_float_functions_are_accurate_to_a_few_ulps(library: ctypes.CDLL, case: Real) -> None:
    inputs = inputs_of(case, torch.float32)
    result = call(library, case, "f32", inputs).double()
    true = case.reference(*(x.double() for x in inputs))
    rounded = true.float()
    unit = (torch.nextafter(rounded.abs(), torch.tensor(math.inf)) - rounded.abs()).double()
    within = rounded.isfinite() & (torch.stack(inputs).abs().amax(0) < 1e5 if case.name in ("sin", "cos") else True)
    error = ((result - true).abs() / unit)[within]
    assert error.max() <= case.ulp, f"at {inputs[0][within][error.argmax()].item()!r}"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles(library: ctypes.CDLL, name: str) -> None:
    """Above 1e5 the absolute error stays small, up to the largest float."""
    case = next(case for case in REALS if case.name == name)
    bits = torch.arange(0x47C35000, 0x7F7FFFFF, 99_991, dtype=torch.int32)
    x = torch.cat([bits.view(torch.float32), -bits.view(torch.float32)])
    assert (call(library, case, "f32", [x]).double() - case.reference(x.double())).abs().max() < 1.5e-7


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        *(
            (name, -0.0, -0.0)
            for name in words("sin tanh erf expm1 log1p erfinv round trunc gelu_erf gelu_tanh silu mish")
        ),
        *((name, 0.0, 0.0) for name in words("sin tanh erf expm1 log1p erfinv round trunc")),
        ("reciprocal", -0.0, -math.inf),
        ("reciprocal", -math.inf, -0.0),
        ("sigmoid", -math.inf, 0.0),
        ("ceil", -0.5, -0.0),
    ],
)
@pytest.mark.parametrize("suffix", DTYPES)
def test_signed_zeros(library: ctypes.CDLL, name: str, x: float, expected: float, suffix: str) -> None:
    case = next(case for case in REALS if case.name == name)
    result = call(library, case, suffix, [torch.tensor([x], dtype=DTYPES[suffix])]).item()
    assert result == expected
    assert math.copysign(1.0, result) == math.copysign(1.0, expected)


@pytest.mark.parametrize("suffix", DTYPES)
@pytest.mark.parametrize("n", POLYGAMMA)
def test_polygamma(library: ctypes.CDLL, n: int, suffix: str) -> None:
    grid = torch.linspace(0.05, 30.0, 3000, dtype=torch.float64)
    x = torch.cat([grid, torch.tensor([-0.5, -1.3, -7.25, 1e3, 1e6, math.nan])]).to(DTYPES[suffix])
    result = torch.empty_like(x)
    getattr(library, f"w_polygamma_{suffix}")(n, pointer(x), pointer(result), ctypes.c_long(len(x)))
    references = [torch.polygamma(n, x), torch.polygamma(n, x.double()).to(x.dtype)]
    # Factorials are computed as e^lgamma, as in torch, which loses some digits in float.
    assert_close(result, references, [x], *((5e-6, 1e-5) if suffix == "f32" else TOLERANCES["f64"]))


@pytest.mark.parametrize("suffix", INTEGERS)
@pytest.mark.parametrize("name", INTEGER)
def test_integer_functions_agree_with_torch(library: ctypes.CDLL, name: str, suffix: str) -> None:
    dtype = INTEGERS[suffix]
    info = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(3)
    small = torch.arange(max(info.min, -9), 70)
    wide = torch.randint(max(info.min + 1, -(2**40)), min(info.max, 2**40), (4000,), generator=generator)
    a, b = (x.reshape(-1) for x in torch.meshgrid(small, small, indexing="ij"))
    a, b = torch.cat([a, wide]).to(dtype), torch.cat([b, wide.flip(0) // 3]).to(dtype)
    if name in ("floor_divide", "trunc_divide", "remainder", "fmod"):
        a, b = a[b != 0], b[b != 0]
    result = torch.empty_like(a)
    getattr(library, f"w_{name}_{suffix}")(pointer(a), pointer(b), pointer(result), ctypes.c_long(len(a)))
    assert torch.equal(result, INTEGER[name](a, b))


@pytest.mark.parametrize("suffix", INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "trunc_divide", "remainder", "fmod"])
def test_integer_division_never_traps(library: ctypes.CDLL, name: str, suffix: str) -> None:
    """Division by zero gives 0; the smallest integer divided by -1 wraps."""
    info = torch.iinfo(INTEGERS[suffix])
    a = torch.tensor([5, 0, info.min, info.min], dtype=INTEGERS[suffix])
    b = torch.tensor([0, 0, 0, -1 if info.min else 1], dtype=INTEGERS[suffix])
    result = torch.empty_like(a)
    getattr(library, f"w_{name}_{suffix}")(pointer(a), pointer(b), pointer(result), ctypes.c_long(4))
    assert result.tolist() == [0, 0, 0, info.min if name.endswith("divide") else 0]


def test_hot_float_functions_vectorize(tmp_path: Path) -> None:
    """gcc reports that each loop vectorizes; some functions are timed against libm."""
    if "Free Software Foundation" not in subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout:
        pytest.skip("cc is not gcc: it does not report which loops it vectorized")
    source = hot_wrappers()
    (tmp_path / "hot.c").write_text(source)
    command = ["cc", *FLAGS, "-fopt-info-vec-optimized", "-shared", "-fPIC", "hot.c", "-o", "hot.so", "-lm"]
    report = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stderr
    vectorized = {int(line) for line in re.findall(r"^hot\.c:(\d+):\d+: optimized: loop vectorized", report, re.M)}
    starts = {name: source[: source.index(f"void hot_{name}(")].count("\n") + 1 for name in HOT}
    assert [name for name, line in starts.items() if line + 1 not in vectorized] == []

    library = ctypes.CDLL(str(tmp_path / "hot.so"))
    x, out = torch.randn(1 << 15).abs(), torch.empty(1 << 15)

    def seconds(name: str) -> float:
        best = math.inf
        for _ in range(20):
            start = time.perf_counter()
            library[name](pointer(x), pointer(out), ctypes.c_long(len(x)))
            best = min(best, time.perf_counter() - start)
        return best

    for name, least in (("exp", 2.0), ("erf", 4.0), ("tanh", 4.0), ("log1p", 4.0)):
        ratio = seconds(f"libm_{name}") / seconds(f"hot_{name}")
        assert ratio > least, f"{name} is only {ratio:.1f} times as fast as libm"


@pytest.mark.slow
def test_cuda_dialect_compiles(tmp_path: Path) -> None:
    """A kernel that calls every function compiles to PTX."""
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not installed: the CUDA dialect is not compiled here")
    lines = [f'#include "{HEADERS}/math.h"', f'#include "{HEADERS}/math_special.h"']
    for suffix, c_type in (("f32", "float"), ("f64", "double")):
        calls = {
            f"hp_{case.name}_{suffix}({', '.join(['x', 'y', 'x', 'y'][: case.arity + len(case.constants)])})"
            for case in REALS
        }
        body = "\n".join(f"  *out++ = ({c_type}){text};" for text in sorted(calls))
        lines.append(f"__global__ void k_{suffix}({c_type}* out, {c_type} x, {c_type} y) {{\n{body}\n}}")
    for suffix in INTEGERS:
        body = "\n".join(f"  *out++ = hp_{name}_{suffix}(x, y);" for name in INTEGER)
        lines.append(f"__global__ void k_{suffix}(hp_{suffix}* out, hp_{suffix} x, hp_{suffix} y) {{\n{body}\n}}")
    (tmp_path / "all.cu").write_text("\n".join(lines))
    command = ["nvcc", "-arch=sm_90", "-Werror=all-warnings", "-ptx", "all.cu", "-o", "all.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_host_dialect_is_c11_and_supports_no_f64(tmp_path: Path) -> None:
    """HP_NO_F64 removes all double functions, as on an OpenCL device without cl_khr_fp64."""
    text = f'#include "{HEADERS}/math.h"\n#include "{HEADERS}/math_special.h"\n'
    (tmp_path / "single.c").write_text(text)
    flags = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wdouble-promotion", "-DHP_NO_F64"]
    command = ["cc", *flags, "-E", "-P", "single.c"]
    expanded = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "hp_erf_f32(float x)" in expanded
    assert "hp_erf_f64" not in expanded
    subprocess.run(["cc", *flags, "-fsyntax-only", "single.c"], cwd=tmp_path, check=True)
