"""Generated OpenCL and CUDA sources of index kernels are complete and self-contained."""

from __future__ import annotations

import re

import pytest

from hardpoint.kernels import generator

KERNELS = {
    "indexing:positions": "I=i64 DIMS=2",
    "indexing:read": "T=i32 I=i64 DIMS=3 ROW=0 UNIT=1",
    "scatter:rows": "T=bf16 I=i64 ROWS=1 COLS=2 OPERATION=1 FIXED=1 UNIT=1",
    "scatter:lines": "T=f32 I=i32 ROWS=1 COLS=1 OPERATION=3 UNIT=0",
    "selection:count": "T=f32 PARTS=2",
    "selection:coordinates": "T=bool PARTS=1 DIMS=3",
    "selection:pick": "R=i64 T=bool PARTS=1 WORDS=2",
    "selection:place": "R=i16 T=bool PARTS=1 WORDS=1",
    "selection:distinct": "T=f64 INVERSE=1 ORDERED=0",
    "selection:repeat": "T=i64",
    "selection:search": "T=f16 R=i32 SORTER=1 RIGHT=0",
    "selection:member": "T=f32 LINEAR=0",
    "selection:fill": "T=i64 DIMS=2 UNIT=0",
    "selection:triangle": "T=i64 UPPER=1",
    "embedding_bag:forward": "T=f16 I=i64 MODE=2 WEIGHTED=0",
}


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("name", KERNELS)
def test_source(name: str, dialect: str) -> None:
    made = generator.generate(name, KERNELS[name], dialect, 64)
    assert made is not None
    text, entry, elements = made
    assert entry == "hp_" + name.replace(":", "_")
    assert elements == 256
    # Only this kernel, and no include: the device compiler has no files.
    heads = re.findall(r"(?:__kernel|__global__) .*?void .*?(hp_\w+)\(", text)
    assert heads == [entry]
    assert "HP_KERNEL(" not in text
    assert '#include "' not in text
