"""A vendor's own Triton compiler: one Python function from TTIR to a binary, on sim."""

from __future__ import annotations

import os
import re

import pytest
import torch
import triton
import triton.language as tl

import hardpoint
from hardpoint._runtime import core
from hardpoint.triton import generators, vendor

DEVICE = os.environ["HARDPOINT_DEVICE"]

SOURCE = """
void scale_by_vendor(void* const* args, const unsigned groups[3], unsigned long first, unsigned long last) {
  const float* x = *(const float**)args[0];
  float* out = *(float**)args[1];
  const int n = *(const int*)args[2];
  const float factor = *(const float*)args[3];
  char* scratch = *(char**)args[4];
  for (unsigned long group = first; group < last; ++group) {
    char* mine = scratch + group * 8;
    for (int k = 0; k < 8; ++k) mine[k] = (char)group;
    const int column = (int)(group % groups[0]), row = (int)(group / groups[0]);
    for (int i = column * BLOCK; i < (column + 1) * BLOCK && i < n; ++i)
      out[row * n + i] = x[row * n + i] * factor + mine[7];
  }
}
"""


@triton.jit
def scale(x, out, n, factor, unused: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(1) * n
    tl.store(out + row + i, tl.load(x + row + i, mask=i < n) * factor, mask=i < n)


@pytest.fixture
def compiler():
    """Register a compiler that knows one kernel; returns what it was called with."""
    calls = []

    def compile(ttir, options):
        calls.append((ttir, options))
        if "@scale" not in ttir:
            raise NotImplementedError("this compiler knows one kernel")
        block = re.search(r"tt.make_range \{end = (\d+)", ttir).group(1)
        source = SOURCE.replace("BLOCK", block)
        return vendor.Binary(core.compile(DEVICE, 0, source, ""), "scale_by_vendor", scratch=(8,))

    vendor.register_compiler(DEVICE, compile, version=f"test-{os.getpid()}-{id(calls)}")
    yield calls
    vendor._compilers.clear()
    generators.kind.cache_clear()
    generators.kind(DEVICE)


def test_a_kernel(compiler, counted):
    assert generators.kind(DEVICE) == "vendor"
    fn = triton.JITFunction(scale.fn)
    x, out = torch.randn(3, 300, device=DEVICE), torch.empty(3, 300, device=DEVICE)
    kernel = fn[(3, 3)](x, out, 300, 2.5, 7, BLOCK=128, num_warps=2)
    group = torch.arange(9, dtype=torch.float32).reshape(3, 3).repeat_interleave(128, 1)[:, :300]
    torch.testing.assert_close(out.cpu(), x.cpu() * 2.5 + group)
    assert counted()["triton::scale_by_vendor"] == {"portable": 1}
    ((ttir, options),) = compiler
    assert "tt.get_program_id" in ttir
    assert options.num_warps == 2
    assert kernel.metadata.scratch == [8]
    fn[(3, 3)](x, out, 300, 2.5, 7, BLOCK=128, num_warps=2)
    assert len(compiler) == 1


def test_an_error_of_the_compiler_reaches_the_user(compiler):
    @triton.jit
    def other(x):
        tl.store(x, 1.0)

    with pytest.raises(NotImplementedError, match="knows one kernel"):
        other[(1,)](torch.zeros(1, device=DEVICE))


def test_without_one_kernels_are_translated():
    assert generators.kind(DEVICE) == "portable"
    hardpoint.reset_counters()
    fn = triton.JITFunction(scale.fn)
    x, out = torch.randn(1, 300, device=DEVICE), torch.empty(1, 300, device=DEVICE)
    fn[(3, 1)](x, out, 300, 2.5, 7, BLOCK=128)
    assert torch.equal(out.cpu(), x.cpu() * 2.5)
