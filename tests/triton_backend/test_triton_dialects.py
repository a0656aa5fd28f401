"""Triton kernels on a device whose compiler takes OpenCL C, and their CUDA C, which NVRTC compiles without a device."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import triton_kernels as kernels

from hardpoint.kernels.generator import preamble
from hardpoint.triton import kernel
from hardpoint.triton.target import Target

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins"))
from opencl_driver import needs_opencl
from test_nvrtc import complaint, needs_nvrtc

#: Tests of test_triton_kernels.py: each kind of operation once or twice.
ON_OPENCL = (
    *(
        "test_add[1-dtype2",
        "test_add[10007-dtype3",
        "test_softmax[dtype0",
        "test_softmax[dtype3",
        "test_layer_norm[dtype0",
    ),
    *("test_matmul[sizes1-dtype1", "test_dot_of_one_tile[given0", "test_scaled_dot[e2m1", "test_batched_dot"),
    *(
        "test_atomics[dtype1",
        "test_atomic_add_of_floats[dtype3",
        "test_random_numbers",
        "test_scans",
        "test_sort_gather",
    ),
    *("test_branches", "test_values_that_exchange", "test_a_tile_that_moves", "test_loads_come_before", "test_nan_and"),
    *("test_functions", "test_integer_arithmetic", "test_narrow_floats_round_as_torch_does[dtype2", "test_conversions"),
    *(
        "test_division_without_traps[dtype1",
        "test_offsets_that_wrap",
        "test_programs_that_wait",
        "test_pointers_from_memory",
        "test_accesses_outside",
        "test_separate_functions",
        "test_three_dimensional",
        "test_tiles_larger_than_the_stack",
        "test_tensor_descriptors",
        "test_stores",
        "test_names_that_c_has",
    ),
)


@needs_opencl
@pytest.mark.slow
def test_kernels_on_opencl(run_python):
    done = run_python(
        f"""
        import sys, pytest
        chosen, file = {ON_OPENCL!r}, {str(Path(__file__).parent / "test_triton_kernels.py")!r}

        class Select:
            def pytest_collection_modifyitems(self, items):
                items[:] = [item for item in items if item.name.startswith(chosen)]

        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", file], [Select()]))
        """,
        HARDPOINT_DEVICE="ocl",
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def sources():
    """Kernels in CUDA C: their TTIR comes from a compilation for the mounted device."""
    x, whole = torch.zeros(16, device="sim"), torch.zeros(16, dtype=torch.int32, device="sim")
    half, double = x.half(), x.double()
    made = {
        "softmax": kernels.softmax.warmup(half, half, 16, BLOCK=1024, grid=(1,)),
        "statistics": kernels.row_statistics.warmup(x, x, 16, 1e-5, BLOCK=256, grid=(1,)),
        "matmul": kernels.matmul.warmup(half, half, half, 16, 16, 16, 16, 16, BM=32, BN=64, BK=32, grid=(1,)),
        "atomics": kernels.atomic_sum.warmup(whole, half, whole, whole, 16, BLOCK=64, grid=(1,)),
        "scans": kernels.scans.warmup(x, x, x, x, N=16, grid=(1,)),
        "rearrange": kernels.rearrange.warmup(x, x, whole, x, x, x, whole, ROWS=4, N=64, grid=(1,)),
        "control": kernels.control.warmup(whole, whole, 16, BLOCK=64, grid=(1,)),
        "functions": kernels.rarer_functions.warmup(double, double, whole.long(), N=64, grid=(1,)),
        "integers": kernels.integers.warmup(whole, whole, whole, N=128, grid=(1,)),
        "random": kernels.random.warmup(x, whole, 16, 1, BLOCK=128, grid=(1,)),
        "mapped": kernels.mapped.warmup(x, x, x, N=64, grid=(1,)),
        "printing": kernels.printing.warmup(x, N=4, grid=(1,)),
        "checking": kernels.checking.warmup(x, N=16, debug=True, grid=(1,)),
        "huge": kernels.huge.warmup(x, x, N=1 << 20, grid=(1,)),
    }
    for name, compiled in made.items():
        source = kernel.lower(compiled.asm["ttir"], Target("cuda", 256, 48 << 10))
        yield name, preamble(special=source.special) + source.text


@needs_nvrtc
def test_kernels_compile_for_cuda():
    refused = {name: text for name, source in sources() if (text := complaint(source))}
    assert refused == {}
