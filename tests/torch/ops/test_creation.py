"""Fill and range operators against the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo import compare, entries, on_cpu

import hardpoint

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16),
    *(torch.int64, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.complex128),
)
REAL = DTYPES[:7]
ENTRIES = entries(
    *(
        "arange",
        "linspace",
        "logspace",
        "eye",
        "full",
        "full_like",
        "new_full",
        "ones",
        "zeros",
        "ones_like",
        "zeros_like",
    ),
    *("fill", "zero_", "complex", "new_zeros", "new_ones"),
)


ON_THE_CPU = {"linspace": (torch.bool,), "logspace": (torch.bool,)}


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    # Boolean ranges have no kernel.
    compare(entry, "creation", dtypes=DTYPES, cpu=ON_THE_CPU.get(entry.name, ()))


@pytest.fixture
def no_vendor() -> Any:
    """The device without its vendor's fill kernel."""

    def decline(*_: Any) -> None:
        raise NotImplementedError

    with hardpoint.kernel("fill", strided=True)(decline):
        yield


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)
    assert not on_cpu("creation")


LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "step": lambda t: t[:, ::2],
    "inner step": lambda t: t[..., ::3],
    "0-dim": lambda t: t[0, 0, 0],
    "empty": lambda t: t[:0],
    "offset": lambda t: t[1:, 1:],
}


@pytest.mark.usefixtures("no_vendor")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_portable_fills(layout: str, dtype: torch.dtype, counted: Any) -> None:
    view = LAYOUTS[layout]
    for value in (0, 1, 3, float("nan")) if dtype.is_floating_point else (0, 1):
        base = torch.testing.make_tensor(3, 40, 70, dtype=dtype, device="cpu")
        twin = base.to("sim")
        hardpoint.reset_counters()
        view(twin).fill_(value)
        if view(twin).numel():
            assert hardpoint.counters()["aten::fill_.Scalar"] == {"portable": 1}
        view(base).fill_(value)
        assert_same(twin, base)
    view(twin).fill_(torch.tensor(2.5).to(dtype).to("sim"))
    view(base).fill_(torch.tensor(2.5).to(dtype))
    assert_same(twin, base)
    view(twin).fill_(torch.tensor(1))
    view(base).fill_(torch.tensor(1))
    assert_same(twin, base)
    view(twin).zero_()
    view(base).zero_()
    assert_same(twin, base)


@pytest.mark.usefixtures("no_vendor")
def test_fills_that_torch_refuses() -> None:
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(3, dtype=torch.uint8, device="sim").fill_(300)
    with pytest.raises(RuntimeError, match="0-dimension"):
        torch.zeros(3, device="sim").fill_(torch.zeros(2, device="sim"))


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_sequences(dtype: torch.dtype, counted: Any) -> None:
    for bounds in ((7,), (2, 9), (0, 10, 3), (9, -4, -2), (5, 5), (0, 1000)):
        if dtype is torch.uint8 and not all(0 <= bound < 256 for bound in bounds):
            continue
        assert_same(torch.arange(*bounds, dtype=dtype, device="sim"), torch.arange(*bounds, dtype=dtype))
    for start, end, steps in ((0, 10, 5), (3, 3, 4), (10, 2, 9), (1, 2, 1), (0, 1, 0), (0, 100, 1001)):
        assert_same(
            torch.linspace(start, end, steps, dtype=dtype, device="sim"), torch.linspace(start, end, steps, dtype=dtype)
        )
    assert_same(
        torch.logspace(0, 3, 7, base=2, dtype=dtype, device="sim"), torch.logspace(0, 3, 7, base=2, dtype=dtype)
    )
    assert_same(torch.eye(5, 7, dtype=dtype, device="sim"), torch.eye(5, 7, dtype=dtype))
    assert_same(torch.eye(0, 7, dtype=dtype, device="sim"), torch.eye(0, 7, dtype=dtype))


def test_sequences_of_fractions(counted: Any) -> None:
    for bounds in ((0.5, 4.1, 0.3), (1e6, 1e6 + 100, 0.25), (3.0, -1.0, -0.7), (0, 100000, 0.1)):
        for dtype in (torch.float32, torch.float64):
            assert_same(torch.arange(*bounds, dtype=dtype, device="sim"), torch.arange(*bounds, dtype=dtype))
    out = torch.empty(20, device="sim")[::2]
    torch.arange(0, 10, out=out)
    assert_same(out, torch.arange(0, 10).float())
    with pytest.warns(UserWarning, match="deprecated"):
        ours = torch.range(0, 4, 0.5, device="sim")
    assert_same(ours, torch.arange(0, 4.5, 0.5))
    with pytest.raises(RuntimeError, match="nonzero"):
        torch.arange(0, 5, 0, device="sim")
    with pytest.raises(RuntimeError, match="upper bound"):
        torch.arange(5, 0, device="sim")


def test_complex_numbers(counted: Any) -> None:
    a, b = torch.randn(3, 5), torch.randn(5)
    assert_same(torch.complex(a.to("sim"), b.to("sim")), torch.complex(a, b.expand(3, 5)))
    assert_same(
        torch.complex(a.to("sim").double().t(), a.to("sim").double().t()), torch.complex(a.double().t(), a.double().t())
    )


@pytest.mark.filterwarnings("ignore:.*runs on the CPU")
def test_kaiser_windows() -> None:
    for arguments in ((7,), (8, False), (9, True, 3.5), (1,), (0,)):
        expected = torch.kaiser_window(*arguments, dtype=torch.float64)
        found = torch.kaiser_window(*arguments, dtype=torch.float64, device="sim")
        assert found.device.type == "sim"
        torch.testing.assert_close(found.cpu(), expected)
