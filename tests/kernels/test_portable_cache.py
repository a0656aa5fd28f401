"""Where compiled portable kernels are kept, and what happens without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardpoint import ops
from hardpoint.kernels import pointwise, store
from hardpoint.kernels import source as kernel_source

# A process with its own torch for most of them: not part of the inner loop (make quick).
pytestmark = pytest.mark.slow

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import torch, hardpoint
x = torch.tensor([1.0, 2.0], device="sim")
assert (x - 0.5).tolist() == [0.5, 1.5]
print(hardpoint.counters()["aten::sub.Tensor"])
"""


def run(cache: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "HARDPOINT_CACHE": str(cache), "HARDPOINT_PREBUILT": "0", **environment},
    )


def binaries(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "kernels").glob("*/*") if p.is_file())


def test_a_kernel_is_compiled_once(tmp_path: Path) -> None:
    assert run(tmp_path).stdout == "{'portable': 1}\n"
    (kept,) = binaries(tmp_path)
    written = kept.stat().st_mtime_ns
    # The second process needs no compiler.
    again = run(tmp_path, HARDPOINT_CC="/nonexistent")
    assert again.stdout == "{'portable': 1}\n", again.stderr
    assert kept.stat().st_mtime_ns == written


def test_a_corrupt_binary_is_compiled_again(tmp_path: Path) -> None:
    run(tmp_path)
    (kept,) = binaries(tmp_path)
    good = kept.read_bytes()
    for bad in (good[: len(good) // 2], b"", b"x" * len(good), good[:-1] + bytes([good[-1] ^ 1])):
        kept.write_bytes(bad)
        assert run(tmp_path).stdout == "{'portable': 1}\n"
        assert kept.read_bytes() == good


def test_without_a_compiler_the_cpu_takes_it(tmp_path: Path) -> None:
    done = run(tmp_path, HARDPOINT_CC="/nonexistent")
    assert done.stdout == "{'cpu': 1}\n"
    assert done.stderr.count("no portable kernel") == 1
    assert not binaries(tmp_path)


def test_several_processes_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "HARDPOINT_CACHE": str(tmp_path)}
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], env=environment, stdout=-1, text=True) for _ in range(3)
    ]
    assert [process.communicate()[0] for process in running] == ["{'portable': 1}\n"] * 3
    assert len(binaries(tmp_path)) == 1


def test_the_least_used_kernels_make_room(tmp_path: Path) -> None:
    kept = []
    for i in range(8):
        path = tmp_path / "any" / f"{i}"
        store.write(tmp_path, path, bytes(1000))
        os.utime(path, ns=(i * 10**9, i * 10**9))
        kept.append(path)
    assert store.trim(tmp_path, 10_000) == 0
    assert store.read(kept[0]) == bytes(1000)  # used last
    size = kept[0].stat().st_size
    assert store.trim(tmp_path, 8 * size - 1) == 3  # down to three quarters
    assert [path.exists() for path in kept] == [True, False, False, False, True, True, True, True]
    assert store.read(kept[1]) is None


def test_a_store_over_its_limit_is_trimmed(tmp_path: Path) -> None:
    run(tmp_path)
    (kept,) = binaries(tmp_path)
    old = kept.with_name("old")
    old.write_bytes(bytes(2 << 20))
    os.utime(old, ns=(0, 0))
    kept.unlink()
    run(tmp_path, HARDPOINT_CACHE_MB="1")
    assert binaries(tmp_path) == [kept]


def test_every_expression_gives_a_source_in_every_dialect() -> None:
    made = 0
    for op in ops.all_ops():
        if op.kind != "pointwise":
            continue
        for compute in ("f32", "bf16", "i64", "bool"):
            operands = ",".join([f"{compute}:contiguous", *[f"{compute}:strided"] * len(op.inputs)])
            spec = pointwise.Specialisation.parse(
                f"compute={compute} outputs=1 variant=0 dimensions=2 operands={operands}"
            )
            if pointwise.expression(op, spec) is None:
                continue
            for dialect, group_size, mark in (
                ("c", 1, "args"),
                ("opencl", 64, "__kernel"),
                ("cuda", 256, "__global__"),
            ):
                built = pointwise.source(op, spec, dialect, group_size, "")
                assert built is not None
                source, name, elements = built
                assert f"hp_{op.name}" == name
                assert mark in source
                assert elements % group_size == 0
                made += 1
    assert made > 300


def test_the_preamble_is_one_text() -> None:
    text = kernel_source.preamble(True)
    assert "#include" not in text.replace("#include <", "")
    assert "hp_exp_f32" in text
    assert "hp_store_bf16" in text
