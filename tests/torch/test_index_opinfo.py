"""Operators that read, write and select by index against the CPU, on PyTorch's own sample inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from index_tiers import served_by_cpu
from torch.testing._internal.common_methods_invocations import op_db

import hardpoint

NAMES = (
    *("gather", "index_select", "take", "take_along_dim", "__getitem__", "nn.functional.embedding"),
    *("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce", "index_put"),
    *("_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "put", "select_scatter", "slice_scatter"),
    *("masked_fill", "masked_select", "masked_scatter", "nonzero", "nonzero_static", "count_nonzero", "argwhere"),
    *("unique", "unique_consecutive", "searchsorted", "bucketize", "isin", "bincount", "histc", "where"),
    *("repeat_interleave", "tril_indices", "triu_indices", "nn.functional.embedding_bag", "nn.functional.one_hot"),
    *("diagonal_scatter", "index_reduce.prod", "scatter_reduce.sum"),
)
ENTRIES = [
    pytest.param(entry, id=f"{entry.name}{'.' + entry.variant_test_name if entry.variant_test_name else ''}")
    for entry in op_db
    if entry.name in NAMES
]
#: One of each kind; the families' own tests have them all.
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool)
SAMPLES = 10
#: What portable kernels do not do yet: products and extrema of complex numbers, `unique` of them and along a dimension.
ON_THE_CPU: dict[str, Any] = {
    "unique": lambda sample, dtype: dtype.is_complex or sample.kwargs.get("dim") is not None,
    "unique_consecutive": lambda sample, dtype: dtype.is_complex or sample.kwargs.get("dim") is not None,
    "scatter_reduce": lambda sample, dtype: dtype.is_complex,
    "scatter": lambda sample, dtype: dtype.is_complex and "reduce" in sample.kwargs,
    "isin": lambda sample, dtype: dtype.is_complex,
    # Sparse gradients are not a device's.
    "nn.functional.embedding_bag": lambda sample, dtype: sample.kwargs.get("sparse", False),
}


def move(value: Any, target: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(target).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(move(v, target) for v in value)
    if isinstance(value, dict):
        return {k: move(v, target) for k, v in value.items()}
    return target if isinstance(value, (torch.device, str)) and str(value) == "cpu" else value


def samples(entry: Any, dtype: torch.dtype, grad: bool) -> list[Any]:
    if dtype not in entry.supported_dtypes("cpu"):
        return []
    grad = grad and entry.supports_autograd
    return list(entry.sample_inputs("cpu", dtype, requires_grad=grad))[:SAMPLES]


def close(actual: Any, expected: Any, dtype: torch.dtype) -> None:
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected, strict=True):
            close(a, e, dtype)
        return
    options: dict[str, float] = {}
    if dtype in (torch.bfloat16, torch.float16):
        # Sums of low precision are rounded at every step, in another order on the CPU.
        options = {"rtol": 2e-2, "atol": 2e-2}
    assert actual.dtype == expected.dtype
    torch.testing.assert_close(actual.cpu(), expected.detach(), equal_nan=True, **options)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    ran = 0
    for dtype in DTYPES:
        for sample in samples(entry, dtype, grad=False):
            try:
                expected = entry(sample.input, *sample.args, **sample.kwargs)
            except (RuntimeError, TypeError, IndexError):
                continue  # samples of mistakes
            given = [move(part, "sim") for part in (sample.input, sample.args, sample.kwargs)]
            hardpoint.reset_counters()
            actual = entry(given[0], *given[1], **given[2])
            if not ON_THE_CPU.get(entry.name, lambda *_: False)(sample, dtype):
                assert not served_by_cpu(), f"{dtype} {sample}"
            close(actual, expected, dtype)
            ran += 1
    assert ran > 0


@pytest.mark.slow
@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.values[0].supports_autograd])
def test_gradients_against_the_cpu(entry: Any) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        for sample in samples(entry, dtype, grad=True):
            if not isinstance(sample.input, torch.Tensor) or not sample.input.requires_grad:
                continue
            expected = entry(sample.input, *sample.args, **sample.kwargs)
            if not isinstance(expected, torch.Tensor) or not expected.requires_grad:
                continue
            given = move(sample.input, "sim")
            hardpoint.reset_counters()
            actual = entry(given, *move(sample.args, "sim"), **move(sample.kwargs, "sim"))
            seed = torch.randn_like(expected)
            (right,) = torch.autograd.grad(expected, sample.input, seed)
            (ours,) = torch.autograd.grad(actual, given, seed.to("sim"))
            if right.is_sparse:
                continue
            if not ON_THE_CPU.get(entry.name, lambda *_: False)(sample, dtype):
                assert not served_by_cpu(), f"{dtype} {sample}"
            close(ours, right, dtype)
