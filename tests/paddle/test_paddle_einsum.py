"""Einsum."""

from __future__ import annotations

import paddle
import pytest
from comparison import assert_on_device, assert_same, numbers

EQUATIONS = {
    "ij,jk->ik": ((3, 4), (4, 5)),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
    "bhqd,bhkd->bhqk": ((2, 3, 4, 5), (2, 3, 6, 5)),
    "bqhd,bkhd->bhqk": ((2, 4, 3, 5), (2, 6, 3, 5)),
    "ij,j->i": ((3, 4), (4,)),
    "i,j->ij": ((3,), (4,)),
    "ij,ij->": ((3, 4), (3, 4)),
    "ij,ij->ij": ((3, 4), (3, 4)),
    "ijx,jk->ki": ((3, 4, 2), (4, 5)),
    "ij,kl->il": ((3, 4), (5, 2)),
    "ij->ji": ((3, 4),),
    "ijk->j": ((3, 4, 2),),
    "ij->": ((3, 4),),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum(rng, counted, equation):
    given = numbers(rng, *EQUATIONS[equation])
    assert_same(lambda *x: paddle.einsum(equation, *x), *given, grad=True, tolerance=1e-5)
    assert_on_device()


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_einsum_in_other_dtypes(rng, counted, dtype):
    given = numbers(rng, (2, 3, 4), (2, 5, 4))
    assert_same(lambda x, y: paddle.einsum("bij,bkj->bik", x, y), *given, dtype=dtype, grad=True)
    assert_on_device()


@pytest.mark.parametrize("equation", ["...ij,...jk->...ik", "ii->i", "ij,jk,kl->il"])
def test_einsum_in_the_cpu_tier(rng, equation):
    shapes = {"ii->i": ((4, 4),), "ij,jk,kl->il": ((3, 4), (4, 5), (5, 2))}.get(equation, ((2, 3, 4), (2, 4, 5)))
    assert_same(lambda *x: paddle.einsum(equation, *x), *numbers(rng, *shapes), grad=True, tolerance=1e-5)
