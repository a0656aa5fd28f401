"""Sharing tensors between processes, and forking after the device was used."""

from __future__ import annotations

import pytest

HEADER = """
import gc
import torch
import torch.multiprocessing as mp
"""

START = """
    context = mp.get_context("spawn")
    there, back = context.Queue(), context.Queue()
    child = context.Process(target=work, args=(there, back))
    child.start()
"""

END = """
    child.join(60)
    assert child.exitcode == 0, child.exitcode
"""


def program(work: str, main: str) -> str:
    indented = "\n".join(f"    {line}" for line in main.strip().splitlines())
    return f"{HEADER}\n{work}\n\nif __name__ == '__main__':{START}\n{indented}\n{END}"


def test_memory_is_shared(run_python):
    run_python(
        program(
            """
def work(there, back):
    x, part = there.get()
    seen = (str(x.device), x.tolist(), part.tolist())
    x.mul_(10)
    torch.sim.synchronize(1)
    back.put(seen)
    del x, part
    gc.collect()
""",
            """
x = torch.arange(6.0, device="sim:1")
there.put((x, x[2:4]))
device, whole, part = back.get(timeout=60)
assert device == "sim:1"
assert whole == [0, 1, 2, 3, 4, 5]
assert part == [2, 3]
assert x.tolist() == [0, 10, 20, 30, 40, 50], x
""",
        )
    )


@pytest.mark.slow
def test_both_sides_write(run_python):
    run_python(
        program(
            """
def work(there, back):
    x = there.get()
    back.put("ready")
    there.get()
    assert x.tolist() == [7, 7, 7], x
    x.fill_(8)
    torch.sim.synchronize()
    back.put("written")
    there.get()
""",
            """
x = torch.zeros(3, device="sim")
there.put(x)
assert back.get(timeout=60) == "ready"
x.fill_(7)
torch.sim.synchronize()
there.put("go on")
assert back.get(timeout=60) == "written"
assert x.tolist() == [8, 8, 8]
there.put("end")
""",
        )
    )


@pytest.mark.slow
def test_parameters_and_odd_tensors(run_python):
    run_python(
        program(
            """
def work(there, back):
    parameter, leaf, strided, empty, whole, host = there.get()
    back.put((
        isinstance(parameter, torch.nn.Parameter), parameter.requires_grad, parameter.tolist(),
        leaf.requires_grad, strided.tolist(), strided.stride(), tuple(empty.shape), str(empty.device), whole.dtype,
        host.tolist(),
    ))
    del parameter, leaf, strided, whole
""",
            """
parameter = torch.nn.Parameter(torch.ones(2, device="sim"))
leaf = torch.ones(1, device="sim", requires_grad=True)
strided = torch.arange(6.0, device="sim").reshape(2, 3).t()
whole = torch.arange(3, device="sim", dtype=torch.int16)
there.put((parameter, leaf, strided, torch.empty(0, 4, device="sim"), whole, torch.ones(2)))
seen = back.get(timeout=60)
assert seen == (True, True, [1, 1], True, [[0, 3], [1, 4], [2, 5]], (1, 3), (0, 4), "sim:0", torch.int16, [1, 1]), seen
""",
        )
    )


@pytest.mark.slow
def test_sent_back(run_python):
    run_python(
        program(
            """
def work(there, back):
    made = torch.full((4,), 3.0, device="sim")
    back.put(made)
    there.get()  # the sender keeps the tensor alive
""",
            """
made = back.get(timeout=60)
assert made.device.type == "sim"
assert made.tolist() == [3, 3, 3, 3]
made.add_(1)
assert made.tolist() == [4, 4, 4, 4]
del made
there.put("end")
""",
        )
    )


@pytest.mark.slow
def test_many_tensors_of_one_segment(run_python):
    run_python(
        program(
            """
def work(there, back):
    for _ in range(50):
        x = there.get()
        back.put(x.sum().item())
    del x
""",
            """
for i in range(50):
    x = torch.full((100,), float(i), device="sim")
    there.put(x)
    assert back.get(timeout=60) == 100.0 * i
""",
        )
    )


@pytest.mark.slow
def test_tensor_that_is_no_leaf_is_refused(run_python):
    run_python(
        HEADER
        + """
from multiprocessing.reduction import ForkingPickler
x = torch.ones(2, device="sim", requires_grad=True) * 2
try:
    ForkingPickler.dumps(x)
except RuntimeError as error:
    assert "detach()" in str(error), error
else:
    raise AssertionError("was sent")
assert ForkingPickler.dumps(x.detach())
"""
    )


@pytest.mark.slow
def test_shared_memory_methods(run_python):
    run_python(
        HEADER
        + """
x = torch.ones(2, device="sim")
assert x.share_memory_() is x
assert x.is_shared()
model = torch.nn.Linear(2, 2).sim()
model.share_memory()
assert model.weight.is_shared()
"""
    )


# ---- Fork

FORK = """
import os, sys
import torch

def child(body):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            body()
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def test_fork_after_use_error_is_actionable(run_python):
    done = run_python(
        FORK
        + """
torch.ones(2, device="sim").add_(1)
assert not torch.sim._is_in_bad_fork()
assert child(lambda: torch.ones(2, device="sim")) == 3
assert child(lambda: torch.sim.synchronize()) == 3
def quiet():
    assert torch.sim._is_in_bad_fork()
    torch.manual_seed(3)  # as workers of a DataLoader do
    assert torch.ones(2).tolist() == [1, 1]
assert child(quiet) == 0
assert torch.ones(2, device="sim").tolist() == [1, 1]
"""
    )
    assert "spawn" in done.stderr
    assert "fork" in done.stderr


@pytest.mark.slow
def test_fork_before_use_works(run_python):
    run_python(
        FORK
        + """
def use():
    assert torch.ones(2, device="sim").add(1).tolist() == [2, 2]
assert child(use) == 0
assert child(use) == 0
use()
"""
    )


def test_python_multiprocessing_with_fork(run_python):
    done = run_python(
        """
        import multiprocessing
        import torch

        def work():
            torch.zeros(1, device="sim")

        if __name__ == "__main__":
            torch.zeros(1, device="sim")
            child = multiprocessing.get_context("fork").Process(target=work)
            child.start()
            child.join(60)
            assert child.exitcode == 1, child.exitcode
        """
    )
    assert "Cannot re-initialize" in done.stderr or "sim was used before fork()" in done.stderr
    assert "spawn" in done.stderr
