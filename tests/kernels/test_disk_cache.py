"""Disk cache of compiled portable kernels, and the fallback without a compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardpoint import ops
from hardpoint.kernels import disk_cache, generator, pointwise

# Slow: most tests start a process that imports torch.
pytestmark = pytest.mark.slow

PROGRAM = """
import warnings
warnings.simplefilter("ignore")
import torch, hardpoint
x = torch.tensor([1.0, 2.0], device="sim")
assert (x - 0.5).tolist() == [0.5, 1.5]
print(hardpoint.counters()["aten::sub.Tensor"])
"""


def run(cache: Path, program: str = PROGRAM, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "HARDPOINT_CACHE": str(cache), "HARDPOINT_PREBUILT": "0", **environment},
    )


def binaries(cache: Path) -> list[Path]:
    return sorted(p for p in (cache / "kernels").glob("*/*") if p.is_file())


def test_a_kernel_is_compiled_once(tmp_path: Path) -> None:
    assert run(tmp_path).stdout == "{'portable': 1}\n"
    (cached,) = binaries(tmp_path)
    written = cached.stat().st_mtime_ns
    # The second process does not need a compiler.
    again = run(tmp_path, HARDPOINT_CC="/nonexistent")
    assert again.stdout == "{'portable': 1}\n", again.stderr
    assert cached.stat().st_mtime_ns == written


def test_a_corrupt_binary_is_compiled_again(tmp_path: Path) -> None:
    run(tmp_path)
    (cached,) = binaries(tmp_path)
    good = cached.read_bytes()
    for bad in (good[: len(good) // 2], b"", b"x" * len(good), good[:-1] + bytes([good[-1] ^ 1])):
        cached.write_bytes(bad)
        assert run(tmp_path).stdout == "{'portable': 1}\n"
        assert cached.read_bytes() == good


def test_falls_back_to_the_cpu_without_a_compiler(tmp_path: Path) -> None:
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


def test_a_cache_that_cannot_be_written_to_is_announced_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")  # root may write to a read-only folder, but not to a file's
    program = PROGRAM.replace("print(", "assert (x * x * 0.5 - 3).tolist() == [-2.5, -1.0]\nprint(")
    done = run(tmp_path / "file", program)
    assert done.stdout == "{'portable': 2}\n"
    kernels = tmp_path / "file" / "kernels"
    assert [line for line in done.stderr.splitlines() if "compiled kernels" in line] == [
        f"hardpoint: compiled kernels cannot be kept in {kernels} (Not a directory), so each process compiles them "
        "again; free some space, or set HARDPOINT_CACHE to a writable folder"
    ]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from hardpoint.kernels import disk_cache

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
root = Path(sys.argv[1])
for name in "abc":
    disk_cache.write(root, root / "any" / name, bytes(10_000))
disk_cache.write(root, root / "any" / "small", bytes(100))
"""


def test_a_full_disk_leaves_no_partial_files(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, text=True, check=True)
    assert done.stderr.count("compiled kernels cannot be kept") == 1
    assert "(File too large)" in done.stderr
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["small"]


def test_trim_removes_what_killed_processes_left(tmp_path: Path) -> None:
    disk_cache.write(tmp_path, tmp_path / "any" / "kernel", bytes(100))
    left, current = (tmp_path / "any" / f"{disk_cache.TEMPORARY}{name}" for name in ("left", "current"))
    for path in (left, current):
        path.write_bytes(bytes(50))
    os.utime(left, (0, 0))
    assert disk_cache.trim(tmp_path, 10_000) == 0
    assert sorted(path.name for path in (tmp_path / "any").iterdir()) == [current.name, "kernel"]


def test_trim_removes_the_least_recently_used(tmp_path: Path) -> None:
    paths = []
    for i in range(8):
        path = tmp_path / "any" / f"{i}"
        disk_cache.write(tmp_path, path, bytes(1000))
        os.utime(path, ns=(i * 10**9, i * 10**9))
        paths.append(path)
    assert disk_cache.trim(tmp_path, 10_000) == 0
    assert disk_cache.read(paths[0]) == bytes(1000)  # now the most recently used
    size = paths[0].stat().st_size
    assert disk_cache.trim(tmp_path, 8 * size - 1) == 3  # down to three quarters
    assert [path.exists() for path in paths] == [True, False, False, False, True, True, True, True]
    assert disk_cache.read(paths[1]) is None


def test_a_cache_over_its_limit_is_trimmed(tmp_path: Path) -> None:
    run(tmp_path)
    (cached,) = binaries(tmp_path)
    old = cached.with_name("old")
    old.write_bytes(bytes(2 << 20))
    os.utime(old, ns=(0, 0))
    cached.unlink()
    run(tmp_path, HARDPOINT_CACHE_MB="1")
    assert binaries(tmp_path) == [cached]


def test_every_expression_has_a_source_in_every_dialect() -> None:
    made = 0
    for op in ops.all_ops():
        if op.kind != "pointwise":
            continue
        for compute in ("f32", "bf16", "i64", "bool"):
            operands = ",".join([f"{compute}:contiguous", *[f"{compute}:strided"] * len(op.inputs)])
            spec = pointwise.Specialization.parse(
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


def test_the_preamble_has_no_includes() -> None:
    text = generator.preamble(True)
    assert "#include" not in text.replace("#include <", "")
    assert "hp_exp_f32" in text
    assert "hp_store_bf16" in text
