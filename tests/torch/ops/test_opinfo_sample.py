"""A hundred OpInfo entries of all families against the CPU, results and gradients: the sample of `make matrix`.

`make test` leaves it out: the tests of the families run every entry.
"""

from __future__ import annotations

import zlib
from typing import Any

import pytest
import torch
from opinfo import close, label, runs
from torch.testing._internal.common_methods_invocations import op_db

#: Random or uninitialized results, results that are unique only up to a sign or an order, and other layouts.
INCOMPARABLE = (
    *("dropout", "rand", "bernoulli", "normal", "multinomial", "uniform", "exponential", "geometric", "cauchy"),
    *("rrelu", "fractional_max_pool", "multi_head_attention", "empty", "jiterator", "_scaled_mm"),
    *("eig", "svd", "qr", "lu", "lstsq", "lowrank", "argsort", "sparse"),
)
COUNT = 100


def sample() -> list[Any]:
    """Entries in the order of a hash of their names: nearly the same ones for each torch."""
    known = [entry for entry in op_db if not any(word in label(entry) for word in INCOMPARABLE)]
    known = [entry for entry in known if torch.float32 in entry.supported_dtypes("cpu")]
    known.sort(key=lambda entry: zlib.crc32(label(entry).encode()))
    return known[:COUNT]


@pytest.mark.matrix
@pytest.mark.parametrize("entry", sample(), ids=label)
def test_against_the_cpu(entry: Any) -> None:
    for run in runs(entry, (torch.float32,), 8, gradients=(torch.float32,)):
        for actual, expected in run.results():
            assert actual.dtype == expected.dtype
            close(actual, expected, run.dtype, rtol=1e-3, atol=1e-4)
        for actual, expected in run.gradients():
            close(actual, expected, run.dtype, rtol=1e-3, atol=1e-4)
