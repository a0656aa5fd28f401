"""Overhead of a small operator: no allocations, locks or environment lookups beyond torch's own."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

COMPILER = shutil.which("gcc")

#: Interposes functions of the C library and counts the calls of each thread.
COUNTERS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

static __thread long counts[3];
long count(int what) { return counts[what]; }

#define NEXT(name) \\
  static __typeof__(&name) next; \\
  if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name);
void* malloc(size_t bytes) { NEXT(malloc) ++counts[0]; return next(bytes); }
int pthread_mutex_lock(pthread_mutex_t* mutex) { NEXT(pthread_mutex_lock) ++counts[1]; return next(mutex); }
char* getenv(const char* name) { NEXT(getenv) ++counts[2]; return next(name); }
"""

PROGRAM = """
import ctypes
import json
import sys

import torch

import hardpoint

lib = ctypes.CDLL(sys.argv[1])
lib.count.restype = ctypes.c_long


def cases(device):
    a, b, out, transposed = (torch.rand(64, 64, device=device) for _ in range(4))
    row, image = torch.rand(64, device=device), torch.rand(2, 8, 16, 16, device=device)
    half, number = torch.empty(64, 64, device=device, dtype=torch.half), torch.ones((), device=device)
    return {
        "vendor's kernel": lambda: torch.add(a, b, out=out),
        "vendor's kernel, in place": lambda: out.add_(a),
        "portable kernel": lambda: torch.sub(a, b, out=out),
        "portable kernel, in place": lambda: out.exp_(),
        "portable kernel, functional": lambda: torch.where(a > b, a, b),
        "with a number": lambda: out.mul_(0.5),
        "declined by the vendor's kernel": lambda: out.copy_(transposed.t()),
        "conversion": lambda: half.copy_(a),
        "reduction": lambda: torch.sum(a, 1, out=row),
        "matrix product": lambda: torch.mm(a, b, out=out),
        "softmax": lambda: torch.softmax(a, 1),
        "layer norm": lambda: torch.nn.functional.layer_norm(a, (64,)),
        "random numbers": lambda: out.uniform_(),
        "pooling": lambda: torch.nn.functional.max_pool2d(image, 2),
        "gather": lambda: torch.nn.functional.embedding(torch.zeros_like(number, dtype=torch.long), a),
    }


def counted(work, calls=50):
    for _ in range(20):
        work()
    before = [lib.count(what) for what in range(3)]
    for _ in range(calls):
        work()
    # Integer division, since Python itself occasionally takes a lock.
    return [(lib.count(what) - start) // calls for what, start in enumerate(before)]


torch.set_num_threads(1)
with torch.inference_mode():
    found = {device: {name: counted(work) for name, work in cases(device).items()} for device in ("cpu", "sim")}
print(json.dumps(found))
"""


@pytest.mark.skipif(COMPILER is None, reason="no gcc on this machine")
def test_allocations_locks_and_environment(tmp_path: Path, run_python: Callable[..., CompletedProcess[str]]) -> None:
    source, library = tmp_path / "counters.c", tmp_path / "counters.so"
    source.write_text(COUNTERS)
    subprocess.run([str(COMPILER), "-O1", "-shared", "-fPIC", source, "-o", library, "-ldl"], check=True, timeout=60)
    program = PROGRAM.replace("sys.argv[1]", repr(str(library)))
    printed = run_python(program, HARDPOINT_DEVICE="sim", HARDPOINT_SIM_THREADS="1", LD_PRELOAD=str(library))
    found = json.loads(printed.stdout.splitlines()[-1])
    worse = {}
    for name, (allocations, locks, looked_up) in found["sim"].items():
        native = found["cpu"][name]
        # One extra lock per launch: the queue of sim's stream, shared with a worker thread.
        if allocations > native[0] or locks > native[1] + 2 or looked_up > native[2]:
            worse[name] = (allocations, locks, looked_up), tuple(native)
    assert not worse, "allocations, locks and getenv of one call, on the device and on the CPU"
