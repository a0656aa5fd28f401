"""Python kernels that override the plug-in's kernels."""

from __future__ import annotations

import functools
import gc
import weakref

import numpy as np
import pytest
import torch

import hardpoint
from hardpoint import ops

close = functools.partial(torch.testing.assert_close, check_device=False, equal_nan=True)
exactly = functools.partial(close, rtol=0, atol=0)


def tiers(name: str) -> dict[str, int]:
    return hardpoint.counters().get(f"aten::{name}", {})


def test_override_and_remove(counted):
    calls = []
    a = torch.ones(3, device="sim")

    @hardpoint.kernel("add")
    def add(out, x, y, alpha):
        calls.append((tuple(out.shape), alpha))
        raise NotImplementedError("not this call")

    try:
        assert (a + a).tolist() == [2, 2, 2]
        assert calls[0] == ((3,), 1)
    finally:
        add.remove()
    add.remove()
    count = len(calls)
    assert (a + a).tolist() == [2, 2, 2]
    assert len(calls) == count
    served = tiers("add.Tensor")
    assert served.pop("vendor") == 1
    assert list(served.values()) == [1], "the next tier took the call that the kernel declined"


def test_override_computes():
    """A Python kernel that calls another operator of the device."""
    a, b = torch.arange(3.0, device="sim"), torch.ones(3, device="sim")
    targets = [torch.empty(3, device="sim")]

    @hardpoint.kernel("add")
    def add(out, x, y, alpha):
        assert tuple(x.shape) == tuple(out.shape) == (3,)
        assert str(x.dtype) == "float32"
        targets[0].fill_(42)

    with add:
        torch.add(a, b, out=targets[0])
    assert targets.pop().tolist() == [42, 42, 42]
    assert (a + b).tolist() == [1, 2, 3]


def test_override_computes_on_its_own_arguments():
    """Through DLPack, including strides."""
    seen = []

    @hardpoint.kernel("exp", strided=True)
    def exp(out, x):
        given = torch.from_dlpack(x)
        seen.append((given.device.type, given.stride(), given.data_ptr()))
        torch.from_dlpack(out).copy_(given.sinh() + given.cosh())

    a = torch.randn(3, 4, device="sim").t()
    with exp:
        found = a.exp()
    close(found, a.cpu().exp())
    assert seen == [("sim", (1, 4), a.data_ptr())]


def test_removed_kernels_are_released():
    """Removing a kernel releases its closure, such as device tensors."""

    class Held:
        pass

    held = Held()
    reference = weakref.ref(held)

    def make(captured):
        def kernel(*_):
            assert captured is not None
            raise NotImplementedError

        return hardpoint.kernel("mul")(kernel)

    with make(held):
        assert (torch.ones(2, device="sim") * 3).tolist() == [3, 3]
    del held
    gc.collect()
    assert reference() is None


def recorder(seen, label):
    """A kernel that records its label for each call and declines."""

    @hardpoint.kernel("mul")
    def kernel(*_):
        seen.append(label)
        raise NotImplementedError

    return kernel


def test_overrides_nest():
    seen = []
    a = torch.ones(2, device="sim")
    with recorder(seen, "outer"):
        a * a
        with recorder(seen, "inner"):
            a * a
        a * a
    a * a
    assert list(dict.fromkeys(seen)) == ["outer", "inner"]
    assert seen[0] == seen[-1] == "outer"
    assert "inner" in seen


def test_overrides_removed_in_any_order():
    seen = []

    a = torch.ones(2, device="sim")
    first, second = recorder(seen, "first"), recorder(seen, "second")
    try:
        first.remove()
        a * a
    finally:
        second.remove()
    a * a
    assert set(seen) == {"second"}


@pytest.mark.parametrize("error", [ValueError("bad value 17"), KeyError("missing"), RuntimeError("broken")], ids=repr)
def test_kernel_that_raises(error):
    @hardpoint.kernel("relu")
    def relu(out, x):
        raise error

    expected = rf"kernel 'relu' failed in aten::relu.*{type(error).__name__}.*{error.args[0]}"
    with relu, pytest.raises(RuntimeError, match=expected):
        torch.ones(2, device="sim").relu()
    assert torch.tensor([-1.0, 2.0], device="sim").relu().tolist() == [0, 2]


def test_kernel_gets_contiguous_tensors_unless_strided():
    strides = []

    def kernel(out, x):
        strides.append(tuple(x.strides))
        raise NotImplementedError

    x = torch.ones(4, 6, device="sim")[::2, ::3]
    with hardpoint.kernel("relu")(kernel):
        exactly(x.relu(), torch.ones(2, 2))
    with hardpoint.kernel("relu", strided=True)(kernel):
        exactly(x.relu(), torch.ones(2, 2))
    assert strides[0] == (2, 1)
    assert strides[-1] == (12, 3)


def test_kernel_gets_one_dtype_and_the_outputs_shape():
    seen = []

    @hardpoint.kernel("mul")
    def mul(out, x, y):
        seen.append([(tuple(t.shape), str(t.dtype)) for t in (out, x, y)])
        raise NotImplementedError

    with mul:
        result = torch.ones(3, 1, device="sim") * torch.arange(4, device="sim")
    assert seen[0] == [((3, 4), "float32")] * 3
    exactly(result, torch.arange(4.0).expand(3, 4))


def test_kernel_gets_a_cpu_scalar_as_a_number():
    seen = []

    @hardpoint.kernel("mul")
    def mul(out, x, y):
        seen.append(y)
        raise NotImplementedError

    with mul:
        result = torch.ones(2, device="sim") * 2.5
    assert seen[0] == 2.5
    assert result.tolist() == [2.5, 2.5]


def test_kernel_for_an_unknown_device():
    with pytest.raises((RuntimeError, ValueError), match="nowhere"):
        hardpoint.kernel("add", device="nowhere")(lambda *_: None)


def test_kernel_serves_backward_too():
    calls = []

    @hardpoint.kernel("matmul", strided=True)
    def matmul(*_):
        calls.append(1)
        raise NotImplementedError

    a = torch.ones(2, 2, device="sim", requires_grad=True)
    with matmul:
        (a @ a).sum().backward()
    assert len(calls) == 3
    assert a.grad.tolist() == [[4, 4], [4, 4]]


def test_numpy_scalars():
    exactly(torch.ones(2, device="sim") * np.float32(2.5), torch.tensor([2.5, 2.5]))
    exactly(torch.ones(2, device="sim", dtype=torch.int64) + np.int64(2), torch.tensor([3, 3]))


NUMBERS = {
    "eq": ("eq.Scalar", lambda x: x == 2.5, (2.5,)),
    "ge": ("ge.Scalar", lambda x: x >= 2, (2,)),
    "pow": ("pow.Scalar", lambda x: 2**x, (2,)),
    "bitwise_left_shift": ("__lshift__.Scalar", lambda x: x.int() << 3, (3,)),
    "div": ("div.Tensor_mode", lambda x: torch.div(x, x, rounding_mode="floor"), (2,)),
    "gelu": ("gelu", lambda x: torch.nn.functional.gelu(x, approximate="tanh"), (1,)),
    "where": ("where.self", lambda x: torch.where(x > 1, x, x), ()),
    "glu": ("glu", lambda x: torch.nn.functional.glu(x), ()),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_and_variants_reach_a_kernel(name, counted):
    """As a scalar operand, and as the last attribute."""
    overload, call, expected = NUMBERS[name]
    x = torch.arange(4.0, device="sim")
    seen = []

    @hardpoint.kernel(name)
    def kernel(*arguments):
        seen.append([a if isinstance(a, int | float) else f"{a.dtype} {a.shape[0]}" for a in arguments])
        raise NotImplementedError

    right = call(x.cpu())
    with kernel:
        close(call(x), right)
    assert len(seen) == 1
    assert tuple(a for a in seen[0] if isinstance(a, int | float)) == expected
    assert "portable" in tiers(overload)
    if name == "where":
        assert seen[0] == ["float32 4", "bool 4", "float32 4", "float32 4"]
    if name == "glu":
        assert seen[0] == ["float32 2"] * 3


def test_unknown_variants_reach_no_kernel():
    x = torch.ones(3, device="sim")

    @hardpoint.kernel("div")
    def kernel(*_):
        raise AssertionError("called")

    with kernel, pytest.raises(RuntimeError, match="rounding_mode"):
        torch.div(x, x, rounding_mode="up")


@pytest.mark.parametrize("name", [op.name for op in ops.all_ops() if op.boolean])
def test_predicates_return_bool(name: str, counted) -> None:
    """Inputs of one dtype and shape, where the shape rule can be skipped for other operators."""
    x, y = torch.tensor([1.0, -2.0, float("inf")]), torch.tensor([1.0, 3.0, -4.0])
    inputs = [t.to("sim") for t in (x, y)][: len(next(op for op in ops.all_ops() if op.name == name).inputs)]
    expected = getattr(torch, name)(*(t.cpu() for t in inputs))

    @hardpoint.kernel(name)
    def kernel(out, *inputs):
        torch.from_dlpack(out).copy_(expected)

    with kernel:
        actual = getattr(torch, name)(*inputs)
    assert [c for n, c in hardpoint.counters().items() if name in n] == [{"vendor": 1}]
    assert actual.dtype is torch.bool
    assert actual.tolist() == expected.tolist()


def test_operators_that_may_skip_the_shape_rule() -> None:
    """They take floating-point numbers and return their dtype, by torch's own rules."""
    x, tried = torch.ones(2, device="meta"), set()
    for op in ops.all_ops():
        function = getattr(torch, op.name, None) or getattr(torch.special, op.name, None)
        structured = any(not overload.iteration for overload in op.aten.values())
        shortened = op.kind == "pointwise" and structured and not op.attributes and not op.variants and op.keeps_floats
        if not shortened or len(op.inputs) > 2 or function is None or op.name in ("isinf", "isfinite"):
            continue  # isinf and isfinite are composites of torch
        assert function(*[x] * len(op.inputs)).dtype is torch.float32, op.name
        tried.add(op.name)
    assert len(tried) > 50
