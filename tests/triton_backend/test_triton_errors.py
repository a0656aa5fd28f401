"""What Triton's users see when something cannot work, and that other programs see nothing at all."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import triton
import triton_kernels as kernels

import hardpoint
from hardpoint.triton.ir import LoweringError


def test_inline_assembly_is_refused_by_name():
    with pytest.raises(
        LoweringError, match=r"kernel assembly .*tt.elementwise_inline_asm at .*triton_kernels.py:\d+: inline"
    ):
        kernels.assembly[(1,)](torch.zeros(16, dtype=torch.int32, device="sim"), N=16)


def test_a_missing_function_is_named():
    with pytest.raises(
        LoweringError, match=r"kernel unknown_function .*triton_kernels.py:\d+: the function __nv_rcbrtf"
    ):
        kernels.unknown_function[(1,)](torch.zeros(16, device="sim"), N=16)


def test_a_compile_error_names_the_kernel(monkeypatch):
    from hardpoint.triton import entry

    monkeypatch.setattr(entry, "support", lambda groups: "this is not C\n")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    x = torch.zeros(16, device="sim")
    with pytest.raises(hardpoint.PluginError, match=r"Triton kernel add: .*did not compile"):
        kernels.add.warmup(x, x, x, 16, BLOCK=512, grid=(1,))


def test_a_program_that_needs_too_much_memory_is_refused(monkeypatch):
    from hardpoint.triton import kernel

    monkeypatch.setattr(kernel, "MEMORY_BYTES", 4 << 20)
    x = torch.zeros(16, device="sim")
    with pytest.raises(LoweringError, match=r"kernel shift_rows .*MiB of temporary memory"):
        kernels.shift_rows.warmup(x, x, N=1024, STEPS=1, grid=(1,))


def test_a_failed_assertion_is_raised_at_the_next_wait(capfd):
    x = torch.ones(16, device="sim")
    kernels.checking[(1,)](x, N=16, debug=True)
    torch.sim.synchronize()
    x[3] = -1
    kernels.checking[(1,)](x, N=16, debug=True)
    with pytest.raises(RuntimeError, match=r"triton::checking: a device assertion failed at line \d+"):
        torch.sim.synchronize()
    assert "Assertion `x must be positive` failed" in capfd.readouterr().out
    torch.sim.synchronize()  # reported once


OUTSIDE = """
import torch
import triton_kernels as kernels
import hardpoint

# One program runs on the calling thread, many on those of the device.
for programs in (1, 64):
    x = torch.ones(1024, device="sim")
    out = torch.zeros(1024, device="sim")

    def run(offset):
        kernels.copy_from[(programs,)](x, out, offset, N=16)
        torch.sim.synchronize()

    try:
        run(5 << 30)  # beyond the memory of sim:0, in an address range that nothing can be mapped to
    except RuntimeError as error:
        print(error)
    run(0)
    assert out[: 16 * programs].tolist() == [1] * 16 * programs
"""


def test_an_access_outside_of_the_device_names_the_kernel(run_python):
    """In a process of its own: handlers of signals that other libraries installed would come first."""
    done = run_python(OUTSIDE, PYTHONPATH=str(Path(__file__).parent))
    message = r"kernel 'copy_from' accessed address 0x\w+, outside of the memory of sim:0"
    assert len(re.findall(message, done.stdout)) == 2


def test_device_print(run_python):
    done = run_python(
        """
        import sys
        sys.path.insert(0, FOLDER)
        import torch, triton_kernels as kernels
        kernels.printing[(1,)](torch.arange(4, dtype=torch.float32, device="sim"), N=4)
        torch.sim.synchronize()
        """.replace("FOLDER", repr(str(__file__).rpartition("/")[0]))
    )
    assert "pid (0, 0, 0) idx (2) value: 2.000000" in done.stdout


def test_a_pointer_of_the_host_is_refused():
    x = torch.zeros(16)
    with pytest.raises(Exception, match=r"not in the memory of sim|access|cpu"):
        kernels.add[(1,)](x, x, x, 16, BLOCK=16)


def test_triton_is_as_before_without_a_device(run_python):
    done = run_python(
        """
        import sys
        import torch, triton
        assert "hardpoint" not in sys.modules
        assert not triton.backends.backends["hardpoint"].driver.is_active()
        try:
            triton.runtime.driver.active
        except RuntimeError as error:
            print(error)
        """,
        HARDPOINT_DEVICE=None,
    )
    assert "0 active drivers" in done.stdout


def test_the_cache_of_triton_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    x = torch.zeros(16, device="sim")
    compiled = kernels.add.warmup(x, x, x, 16, BLOCK=128, grid=(1,))
    assert [path.name for path in tmp_path.rglob("*.c")] == ["add.c"]
    assert "void add(" in compiled.asm["c"]


PROGRAM = """
    import sys
    sys.path.insert(0, FOLDER)
    import torch, triton_kernels as kernels
    x = torch.ones(100, device="sim")
    kernels.add[(1,)](x, x, x, 100, BLOCK=128)
    assert x.tolist() == [2] * 100
""".replace("FOLDER", repr(str(__file__).rpartition("/")[0]))


def test_a_damaged_cache_entry_is_reported(run_python, tmp_path):
    variables = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "HARDPOINT_CACHE": str(tmp_path / "hardpoint")}
    run_python(PROGRAM, **variables)
    for damaged in (tmp_path / "hardpoint" / "kernels").glob("*/*"):
        damaged.write_bytes(b"damaged")
    (binary,) = (tmp_path / "triton").rglob("add.bin")
    binary.write_bytes(binary.read_bytes()[:1000])
    done = run_python(PROGRAM, check=False, **variables)
    assert "Triton kernel add: " in done.stderr
    assert "clear TRITON_CACHE_DIR" in done.stderr
    shutil.rmtree(tmp_path / "triton")
    run_python(PROGRAM, **variables)  # Hardpoint's own damaged entry is compiled again


@pytest.mark.slow
def test_two_processes_compile_the_same_kernel(run_python, tmp_path):
    variables = {"TRITON_CACHE_DIR": str(tmp_path / "triton"), "HARDPOINT_CACHE": str(tmp_path / "hardpoint")}
    with ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run_python, PROGRAM, **variables) for _ in range(2)]
        assert [run.result().returncode for run in runs] == [0, 0]


def test_launch_hooks():
    seen = []
    x = torch.ones(16, device="sim")
    triton.knobs.runtime.launch_enter_hook.add(lambda data: seen.append(data.get()["name"]))
    try:
        kernels.add[(1,)](x, x, x, 16, BLOCK=64)
    finally:
        triton.knobs.runtime.launch_enter_hook.calls.clear()
    assert seen == ["add"]


def test_a_rule_that_denies_device_kernels():
    x = torch.ones(16, device="sim")
    kernels.add[(1,)](x, x, x, 16, BLOCK=64)  # rules for unknown operators warn
    with (
        hardpoint.fallback("triton::add"),
        pytest.raises(NotImplementedError, match="a rule denies triton::add"),
    ):
        kernels.add[(1,)](x, x, x, 16, BLOCK=64)
