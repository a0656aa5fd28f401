"""Error messages for users of Triton. Programs without Triton see no difference."""

from __future__ import annotations

import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
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

    monkeypatch.setattr(entry, "support", lambda *_: "this is not C\n")
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
import ctypes, faulthandler, os, signal, time
import torch
import triton_kernels as kernels
import hardpoint

# One program runs on the calling thread, many on those of the device.
def access_beyond_the_device(step):
    time.sleep(0.1)  # sim looks for other handlers once per tick of the clock
    for programs in (1, 64):
        x = torch.ones(1024, device="sim")
        out = torch.zeros(1024, device="sim")

        def run(offset):
            kernels.copy_from[(programs,)](x, out, offset, N=16)
            torch.sim.synchronize()

        # Beyond the memory of sim:0, in an address range that nothing can be mapped to, or where nothing is allocated.
        for offset in (5 << 30, 1 << 27):
            try:
                run(offset)
            except RuntimeError as error:
                print(step, error, flush=True)
        run(0)
        assert out[: 16 * programs].tolist() == [1] * 16 * programs

access_beyond_the_device("alone:")
"""

HANDLERS = """
faulthandler.enable()
access_beyond_the_device("faulthandler:")
signal.signal(signal.SIGSEGV, lambda *_: os._exit(3))
access_beyond_the_device("Python:")
signal.signal(signal.SIGSEGV, signal.SIG_DFL)
access_beyond_the_device("default:")
faulthandler.disable()
faulthandler.enable()
access_beyond_the_device("faulthandler again:")
END
ctypes.string_at(torch.ones(4, device="sim").data_ptr(), 4)
"""


def steps(output: str) -> list[str]:
    """The steps of the program whose error was the expected one."""
    return re.findall(
        r"^(.*?): .*kernel 'copy_from' accessed address 0x\w+, outside of the allocated memory of sim:0", output, re.M
    )


@pytest.mark.parametrize("end", ["", "faulthandler.disable()"])
def test_an_access_outside_of_the_device_names_the_kernel(run_python, end):
    """Also when the program replaced sim's handler of signals."""
    program = OUTSIDE + HANDLERS.replace("END", end)
    done = run_python(program, check=False, PYTHONPATH=str(Path(__file__).parent))
    assert done.returncode == -signal.SIGSEGV, done.stderr
    names = ("alone", "faulthandler", "Python", "default", "faulthandler again")
    assert steps(done.stdout) == [name for name in names for _ in range(4)]
    # An access by the host is explained once, and then reaches the program's own handler.
    assert done.stderr.count("hardpoint sim: host code touched device memory at 0x") == 1
    assert ("Fatal Python error: Segmentation fault" in done.stderr) == (end == "")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("paddle") is None, reason="Paddle is not installed")
def test_an_access_outside_of_the_device_with_the_handlers_of_paddle(run_python):
    program = OUTSIDE + 'import paddle\naccess_beyond_the_device("Paddle:")\n'
    done = run_python(program, PYTHONPATH=str(Path(__file__).parent))
    assert steps(done.stdout) == ["alone"] * 4 + ["Paddle"] * 4, done.stderr


def test_device_print(run_python):
    done = run_python(
        """
        import sys
        sys.path.insert(0, FOLDER)
        import torch, triton_kernels as kernels
        x = torch.arange(4, dtype=torch.float32, device="sim")
        kernels.printing[(1,)](x, N=4)
        kernels.printing_text[(1,)](x)
        torch.sim.synchronize()
        """.replace("FOLDER", repr(str(__file__).rpartition("/")[0]))
    )
    assert "pid (0, 0, 0) idx (2) value: 2.000000" in done.stdout
    assert "pid (0, 0, 0) idx () 100% of {x}, [y]: 3.000000" in done.stdout


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


def test_programs_that_must_run_at_the_same_time_are_refused():
    x = torch.zeros(16, device="sim")
    with pytest.raises(LoweringError, match=r"kernel add .*launch_cooperative_grid"):
        kernels.add.warmup(x, x, x, 16, BLOCK=32, grid=(1,), launch_cooperative_grid=True)


def test_chains_that_are_too_long_are_refused(monkeypatch):
    from hardpoint.triton import kernel

    def run(*_, **__):
        raise RecursionError

    monkeypatch.setattr(kernel, "_run", run)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    x = torch.zeros(16, device="sim")
    with pytest.raises(LoweringError, match=r"kernel add .*chains of operations are too long"):
        kernels.add.warmup(x, x, x, 16, BLOCK=2048, grid=(1,))
