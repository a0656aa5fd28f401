"""Device failures are reported with the operator's name, and the program can continue."""

from __future__ import annotations

import pytest

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

PROGRAM = """
import torch
import hardpoint
import hardpoint.devices.sim

BIG = 1 << 20

# An operator that only has a CPU kernel.
torch.library.define("failures::total", "(Tensor x) -> Tensor")
torch.library.impl("failures::total", "CPU", lambda x: x.sum())
total = torch.ops.failures.total

def message(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)
    raise AssertionError("nothing was raised")

"""


def check(run_python, body: str, **variables) -> None:
    run_python(PROGRAM + body, **variables)


def test_kernel_failure_names_the_operator(run_python):
    check(
        run_python,
        """
CALLS = {
    "aten::add.Tensor": lambda x: x + x,
    "aten::mul.Tensor": lambda x: x * 2,
    "aten::mm": lambda x: x.view(2, -1) @ x.view(-1, 2),
    "aten::bmm": lambda x: torch.bmm(x.view(1, 2, -1), x.view(1, -1, 2)),
    "aten::relu": lambda x: x.relu(),
    "aten::fill_.Scalar": lambda x: x.fill_(3),
    "aten::zero_": lambda x: x.zero_(),
    "aten::copy_": lambda x: x.view(2, -1).t().contiguous(),
}
for size in (4, BIG):
    for operator, call in CALLS.items():
        x = torch.ones(size, device="sim")
        torch.sim.synchronize()
        with hardpoint.devices.sim.fault("kernel"):
            kept = call(x)
            text = message(torch.sim.synchronize)
        assert operator in text, text
        assert "injected kernel failure" in text, text
        assert "sim:0" in text, text
        torch.sim.synchronize()  # reported only once
        assert (torch.ones(3, device="sim") + 1).tolist() == [2, 2, 2]
""",
    )


def test_failure_is_raised_at_synchronization(run_python):
    check(
        run_python,
        """
x = torch.ones(BIG, device="sim")
for wait in (lambda y: y.cpu(), lambda y: y[0].item(), lambda y: torch.accelerator.synchronize(), lambda y: y.tolist(),
             lambda y: torch.sim.current_stream().synchronize(), lambda y: total(y)):
    with hardpoint.devices.sim.fault("kernel:operator=aten::add"):
        y = x + 1
        text = message(lambda: wait(y))
    assert "aten::add.Tensor" in text, text
    assert (x + 1)[0].item() == 2
""",
    )


def test_failure_of_one_operator_among_many(run_python):
    check(
        run_python,
        """
x = torch.ones(BIG, device="sim")
with hardpoint.devices.sim.fault("kernel:after=3:operator=aten::mul"):
    for _ in range(5):
        x = x * 2
        y = x + 1
    text = message(torch.sim.synchronize)
assert "aten::mul.Tensor" in text, text
assert "aten::add" not in text.split(" failed")[0].rsplit("operator", 1)[-1], text
""",
    )


def test_failure_on_another_stream_and_device(run_python):
    check(
        run_python,
        """
stream = torch.sim.Stream(1)
with torch.sim.stream(stream), hardpoint.devices.sim.fault("kernel"):
    x = torch.empty(BIG, device="sim:1").fill_(2)
torch.sim.synchronize(0)
text = message(stream.synchronize)
assert "sim:1" in text and "aten::fill_.Scalar" in text, text
torch.sim.synchronize(1)
""",
    )


def test_copy_failure(run_python):
    check(
        run_python,
        """
x = torch.full((BIG,), 0.5, device="sim")
CALLS = {
    "to the device": lambda: torch.ones(BIG).to("sim"),
    "to the host": lambda: x.cpu(),
    "on the device": lambda: (x.clone(), torch.sim.synchronize()),
    "between devices": lambda: (x.to("sim:1"), torch.sim.synchronize(0)),
    "an item": lambda: x[0].item(),
    "the CPU tier": lambda: total(x),
    "printing": lambda: repr(x),
}
for name, call in CALLS.items():
    torch.sim.synchronize()
    with hardpoint.devices.sim.fault("copy"):
        text = message(call)
    assert "injected copy failure" in text, (name, text)
    torch.sim.synchronize(0)
    torch.sim.synchronize(1)
    assert x.sum().item() == BIG / 2
""",
    )


def test_copy_failure_in_the_cpu_tier_names_the_operator(run_python):
    check(
        run_python,
        """
x = torch.full((4,), 0.5, device="sim")
with hardpoint.devices.sim.fault("copy:operator=failures::total"):
    text = message(lambda: total(x))
assert "failures::total" in text, text
assert total(x).item() == 2
""",
    )


def test_allocation_is_retried(run_python):
    check(
        run_python,
        """
with hardpoint.devices.sim.fault("allocate:count=1"):
    x = torch.ones(BIG, device="sim")
assert x.sum().item() == BIG
assert torch.sim.memory_stats()["num_alloc_retries"] == 1
assert torch.sim.memory_stats()["num_ooms"] == 0
""",
    )


def test_allocation_failure_is_raised(run_python):
    check(
        run_python,
        """
with hardpoint.devices.sim.fault("allocate:count=0"):
    try:
        torch.ones(BIG, device="sim")
    except torch.OutOfMemoryError as error:
        assert f"tried to allocate {4 * BIG} bytes" in str(error), error
        assert "largest free cached block" in str(error), error
    else:
        raise AssertionError
assert torch.ones(BIG, device="sim").sum().item() == BIG
assert torch.sim.memory_stats()["num_ooms"] == 1
""",
    )


@pytest.mark.parametrize(
    "wait",
    [
        "torch.sim.synchronize()",
        "torch.sim.current_stream().synchronize()",
        "event.synchronize()",
        "y.cpu()",
        "y[-1].item()",
        "total(y)",
        "y.copy_(torch.ones(size))",
        "torch.zeros(size).copy_(y)",
    ],
)
def test_hang_is_reported_with_the_operator(run_python, wait):
    """Work queued behind the hang does no harm when the hang ends."""
    check(
        run_python,
        f"""
import gc
import time
hardpoint.set_timeout(0.4)
assert hardpoint.timeout() == 0.4
for size in (4, BIG):
    x = torch.ones(size, device="sim")
    torch.sim.synchronize()
    hardpoint.devices.sim.set_fault("hang:operator=aten::add")
    y = x + 1
    event = torch.sim.current_stream().record_event()
    start = time.monotonic()
    text = message(lambda: {wait})
    assert 0.3 < time.monotonic() - start < 20
    assert "aten::add.Tensor" in text, text
    assert "timeout" in text.lower() or "hang" in text.lower() or "running for" in text, text
    gc.collect()
    filling = [torch.zeros(size) for _ in range(4)]  # reuses the host memory of the failed call
    hardpoint.devices.sim.set_fault("")  # the hang ends
    torch.sim.synchronize()
    assert all(t.eq(0).all() for t in filling)
    assert (x + 1)[0].item() == 2
""",
        timeout=30,
    )


def test_timeout_from_the_environment(run_python):
    check(run_python, "assert hardpoint.timeout() == 2.5", HARDPOINT_TIMEOUT="2.5")


def test_wrong_timeout(run_python):
    check(
        run_python,
        """
for wrong in (-1, -0.5):
    try:
        hardpoint.set_timeout(wrong)
    except ValueError as error:
        assert "negative" in str(error)
    else:
        raise AssertionError
""",
    )


def test_wrong_fault_specification(run_python):
    check(
        run_python,
        """
for wrong in ("nonsense", "copy:after=x", "copy:after=0", "copy:color=red", "kernel,", "copy:count=-1"):
    try:
        hardpoint.devices.sim.set_fault(wrong)
    except ValueError as error:
        assert repr(wrong) in str(error)
    else:
        raise AssertionError(wrong)
    assert (torch.ones(2, device="sim") + 1).tolist() == [2, 2]
""",
    )


@pytest.mark.parametrize("access", ["ctypes.string_at(x.data_ptr(), 4)", "ctypes.memset(x.data_ptr(), 0, 4)"])
@pytest.mark.parametrize("index", [0, 1])
def test_host_access_to_device_memory(run_python, access, index):
    done = run_python(
        f"""
        import ctypes
        import torch
        x = torch.ones(4, device="sim:{index}")
        torch.sim.synchronize({index})
        {access}
        """,
        check=False,
    )
    assert done.returncode == -11
    assert "host code touched device memory at 0x" in done.stderr
    assert f"(sim:{index})" in done.stderr
    assert "tensor.cpu()" in done.stderr


def test_failure_inside_backward(run_python):
    check(
        run_python,
        """
x = torch.ones(BIG, device="sim", requires_grad=True)
y = (x * x).sum()
with hardpoint.devices.sim.fault("kernel:operator=aten::mul"):
    text = message(lambda: (y.backward(), torch.sim.synchronize()))
assert "aten::mul" in text, text
""",
    )


def test_failure_leaves_no_memory_behind(run_python):
    check(
        run_python,
        """
import gc
x = torch.full((BIG,), 0.5, device="sim")
torch.sim.synchronize()
before = torch.sim.memory_allocated()
for kind in ("kernel", "copy", "allocate:count=2"):
    for call in (lambda: x + x, lambda: total(x), lambda: x.cpu(), lambda: x.to("sim:1")):
        torch.sim.empty_cache()
        with hardpoint.devices.sim.fault(kind):
            try:
                call()
                torch.sim.synchronize(0)
                torch.sim.synchronize(1)
            except RuntimeError:
                pass
        gc.collect()
        assert torch.sim.memory_allocated() == before, (kind, torch.sim.memory_allocated() - before)
        assert torch.sim.memory_allocated(1) == 0
assert x.sum().item() == BIG / 2
""",
    )


def test_program_ends_while_the_device_hangs(run_python):
    run_python(
        """
        import torch, hardpoint, hardpoint.devices.sim
        hardpoint.devices.sim.set_fault("hang")
        x = torch.ones(1 << 20, device="sim") + 1
        """,
        timeout=30,
    )
