"""The CTC loss against Paddle's CPU, on the device."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
from comparison import assert_on_device, assert_same

STEPS, BATCH, CLASSES = 7, 4, 5
LABELS = np.array([[1, 2, 2], [3, 1, 0], [4, 0, 0], [1, 1, 1]], "int32")


def loss(x, steps, counts, blank=0, norm_by_times=False, reduction="none"):
    label, lengths = paddle.to_tensor(LABELS), paddle.to_tensor(np.array(steps, "int64"))
    counted = paddle.to_tensor(np.array(counts, "int64"))
    return F.ctc_loss(x, label, lengths, counted, blank, reduction, norm_by_times)


@pytest.mark.parametrize(
    ("steps", "counts"),
    [
        ([7, 7, 7, 7], [3, 2, 1, 3]),
        ([7, 5, 1, 6], [3, 2, 1, 2]),
        ([7, 5, 3, 3], [3, 0, 1, 3]),  # the last has too few steps for three equal labels
    ],
    ids=["equal lengths", "different lengths", "impossible"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_losses_and_gradients(rng, counted, steps, counts, dtype):
    x = rng.standard_normal((STEPS, BATCH, CLASSES)).astype("float32")
    assert_same(lambda x: loss(x, steps, counts), x, dtype=dtype, grad=True, tolerance=1e-5)
    assert counted()["phi::warpctc"] == counted()["phi::warpctc_grad"] == {"decomposition": 1}
    assert_on_device()


@pytest.mark.parametrize("options", [{"blank": 4}, {"norm_by_times": True}, {"reduction": "mean"}])
def test_options(rng, counted, options):
    x = rng.standard_normal((STEPS, BATCH, CLASSES)).astype("float32")
    given = {"blank": 0, "norm_by_times": False, "reduction": "none", **options}
    # Label 4 is the blank in one case: no sequence has it within its length.
    assert_same(lambda x: loss(x, [7, 6, 5, 7], [3, 2, 0, 2], **given), x, grad=True, tolerance=1e-5)
    assert_on_device()


def test_lengths_beyond_the_tensors_stay_inside(rng):
    x = paddle.to_tensor(rng.standard_normal((STEPS, BATCH, CLASSES)).astype("float32"))
    found = loss(x, [1000, 7, 7, 7], [1000, 2, 1, 3]).numpy()
    np.testing.assert_allclose(found, loss(x, [7, 7, 7, 7], [3, 2, 1, 3]).numpy(), rtol=1e-6)
