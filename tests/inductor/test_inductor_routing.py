"""``torch.compile`` on devices that Inductor cannot compile for, and in fresh processes."""

from __future__ import annotations

import pytest

PROGRAM = """
    import sys
    {first}
    import torch
    assert "torch._inductor.compile_fx" not in sys.modules
    x = torch.randn(100)
    f = lambda x: (x * 2 + 1).relu()
    for device in {devices}:
        torch.testing.assert_close(torch.compile(f)(x.to(device)).cpu(), f(x))
    import hardpoint
    print(sorted(name for name in hardpoint.counters() if name.startswith("triton::")))
"""


@pytest.mark.slow
def test_without_triton(run_python):
    done = run_python(PROGRAM.format(first='sys.modules["triton"] = None', devices=["sim", "cpu"]), fresh=True)
    assert done.stderr.count('[hardpoint] torch.compile runs backend="hardpoint" for sim: Triton is not installed') == 1
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_without_a_c_compiler(run_python, tmp_path):
    program = PROGRAM.format(first="", devices=["sim"])
    done = run_python(program, HARDPOINT_CC="/nowhere/cc", HARDPOINT_CACHE=str(tmp_path / "cache"))
    assert 'torch.compile runs backend="hardpoint" for sim' in done.stderr
    assert "has no C compiler" in done.stderr


@pytest.mark.slow
def test_compile_processes(run_python, tmp_path):
    """The workers of Inductor's pool mount the device too."""
    variables = {"TORCHINDUCTOR_COMPILE_THREADS": "2", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")}
    done = run_python(PROGRAM.format(first="", devices=["sim"]), **variables)
    assert "triton_poi_fused_add_mul_relu_0" in done.stdout


@pytest.mark.slow
def test_a_device_that_the_environment_does_not_name(run_python, tmp_path):
    program = PROGRAM.format(first="import hardpoint", devices=["sim"])
    done = run_python(program, HARDPOINT_DEVICE=None, TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "inductor"))
    assert "triton_poi_fused_add_mul_relu_0" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_the_first_compiled_function_launches_a_triton_kernel(run_python, backend):
    """Dynamo traces before it imports Inductor; other backends never import it."""
    done = run_python(
        """
        import sys, torch, triton, triton.language as tl

        @triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])
        @triton.jit
        def twice(x, out, n, BLOCK: tl.constexpr):
            i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

        def f(x):
            out = torch.empty_like(x)
            twice[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
            return out + 1

        assert "torch._inductor.compile_fx" not in sys.modules
        x = torch.randn(100)
        print(torch.equal(torch.compile(f, fullgraph=True, backend=BACKEND)(x.to("sim")).cpu(), x * 2 + 1))
        """.replace("BACKEND", repr(backend))
    )
    assert done.stdout.strip() == "True"
