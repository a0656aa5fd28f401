"""Single-tensor optimizer steps give the same results for every group size."""

from __future__ import annotations

from ctypes import c_double
from pathlib import Path

import pytest
import torch
from work_groups import Kernel, needs_compiler

from hardpoint.kernels import generator

pytestmark = [pytest.mark.slow, needs_compiler]

N = 1001
TYPES = "T=f32 G=f32 M=f32 S=f32 MASTER=0"


def both(tmp_path: Path, kernel: str, flag: str, states: int, scalars: tuple[float, ...], numbers: tuple[float, ...]):
    given = [torch.rand(N) + 0.5 for _ in range(2 + states)]
    results = []
    for size in (1, 4):
        param, grad, *state = (tensor.clone() for tensor in given)
        run = Kernel(tmp_path, f"optimizer_single_tensor:{kernel}", f"{TYPES} {flag}", size)
        singles = [torch.tensor([value]) for value in scalars]
        struct = [(c_double * len(numbers))(*numbers)] if numbers else []
        run(run.groups(N), param, grad, torch.zeros(1), *state, *singles, N, *struct)
        results.append([param, *state])
    for one, several in zip(*results, strict=True):
        assert torch.equal(one, several)
    assert not torch.equal(results[0][0], given[0])
    return results[0][0], given


def test_sgd(tmp_path):
    found, (param, grad) = both(tmp_path, "sgd", "UNUSED=0", 0, (0.1,), ())
    torch.testing.assert_close(found, param - 0.1 * grad)


@pytest.mark.parametrize("nesterov", [0, 1])
def test_momentum(tmp_path, nesterov):
    numbers = (0.9, 0.01, 0.5)
    found, (param, grad, velocity) = both(tmp_path, "momentum", f"NESTEROV={nesterov}", 1, (0.1,), numbers)
    d = 0.5 * grad + 0.01 * param
    v = 0.9 * velocity + d
    torch.testing.assert_close(found, param - 0.1 * (d + 0.9 * v if nesterov else v))


@pytest.mark.parametrize("amsgrad", [0, 1])
def test_adam(tmp_path, amsgrad):
    numbers = (0.9, 0.99, 1e-8, 1.0, 0.1)
    found, (param, grad, m, v, top) = both(tmp_path, "adam", f"AMSGRAD={amsgrad}", 3, (0.1, 0.9, 0.99), numbers)
    m, v = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad**2
    top = torch.maximum(top, v) if amsgrad else v
    expected = param * (1 - 0.1 * 0.1) - 0.1 * (m / (1 - 0.9)) / ((top / (1 - 0.99)).sqrt() + 1e-8)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("kernel", "states"), [("adadelta", 2), ("rmsprop", 3), ("adagrad", 1)])
def test_adadelta_rmsprop_adagrad(tmp_path, kernel, states):
    both(tmp_path, kernel, "CENTERED=0" if kernel == "rmsprop" else "UNUSED=0", states, (0.1,), (0.9, 1e-6, 0.9))


@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
@pytest.mark.parametrize("kernel", ["sgd", "adam", "lamb", "nadam", "radam", "rprop"])
def test_other_dialects(kernel, dialect):
    made = generator.generate(f"optimizer_single_tensor:{kernel}", f"{TYPES} AMSGRAD=0", dialect, 64)
    assert made is not None
    source, entry, _ = made
    head = source[: source.index(f" {entry}(")].rsplit("\n", 1)[1]
    assert {"opencl": "__kernel", "cuda": "__global__"}[dialect] in head
