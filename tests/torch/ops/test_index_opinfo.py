"""Index operators against the CPU on OpInfo samples."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from opinfo import INDEX, Run, close, entries, on_cpu, runs

NAMES = (
    *("gather", "index_select", "take", "take_along_dim", "__getitem__", "nn.functional.embedding"),
    *("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill", "index_reduce", "index_put"),
    *("_unsafe_masked_index", "_unsafe_masked_index_put_accumulate", "put", "select_scatter", "slice_scatter"),
    *("masked_fill", "masked_select", "masked_scatter", "nonzero", "nonzero_static", "count_nonzero", "argwhere"),
    *("unique", "unique_consecutive", "searchsorted", "bucketize", "isin", "bincount", "histc", "where"),
    *("repeat_interleave", "tril_indices", "triu_indices", "nn.functional.embedding_bag", "nn.functional.one_hot"),
    "diagonal_scatter",
)
ENTRIES = entries(*NAMES)
FAMILIES = (*INDEX, "unique", "histogram")
#: One of each kind; the tests of the families cover all dtypes.
DTYPES = (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool)
#: Samples without a portable kernel: products, extrema and ordering of complex numbers.
ON_THE_CPU: dict[str, Any] = {
    "unique": lambda sample, dtype: dtype.is_complex,
    "unique_consecutive": lambda sample, dtype: dtype.is_complex,
    "scatter_reduce": lambda sample, dtype: dtype.is_complex,
    "isin": lambda sample, dtype: dtype.is_complex,
    # Sparse gradients are not supported on the device.
    "nn.functional.embedding_bag": lambda sample, dtype: sample.kwargs.get("sparse", False),
}


class Tiers:
    """Check that exactly the listed samples run on the CPU."""

    def __init__(self, name: str) -> None:
        self.listed = ON_THE_CPU.get(name, lambda *_: False)
        self.expected = self.fell = False

    def check(self, run: Run) -> None:
        listed = self.listed(run.sample, run.dtype)
        assert listed or not on_cpu(*FAMILIES), f"{run.dtype} {run.sample}: {on_cpu(*FAMILIES)}"
        self.expected |= listed
        self.fell |= bool(on_cpu(*FAMILIES))


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRIES)
def test_against_the_cpu(entry: Any) -> None:
    tiers = Tiers(entry.name)
    # On the CPU, 16-bit sums are rounded at every step, in another order.
    for run in runs(entry, DTYPES, 10, {}, gradients=()):
        for actual, expected in run.results():
            assert actual.dtype == expected.dtype
            close(actual, expected, run.dtype)
        tiers.check(run)
    assert tiers.fell == tiers.expected, "the CPU no longer serves what the list says"


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", [e for e in ENTRIES if e.values[0].supports_autograd and torch.float32 in e.values[0].dtypes]
)
def test_gradients_against_the_cpu(entry: Any) -> None:
    # Sparse gradients are not supported on the device.
    dtypes, tiers = (torch.float32, torch.bfloat16), Tiers(entry.name)
    # The gradient of a bag's weights is a sum of products, which the CPU rounds at every step.
    low = 8e-2 if entry.name == "nn.functional.embedding_bag" else 2e-2
    for run in runs(entry, dtypes, 10, {}, gradients=dtypes, skip="sparse"):
        for actual, expected in run.gradients():
            close(actual, expected, run.dtype, low)
        tiers.check(run)
