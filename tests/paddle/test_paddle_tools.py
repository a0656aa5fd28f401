"""Rules for fallback on Paddle's calls; the other tools: tests/toolbox/test_paddle_calls.py."""

from __future__ import annotations

import numpy as np
import paddle

import hardpoint


def test_rules_choose_the_tier(counted):
    x = paddle.randn([4, 4])
    right = x.numpy() @ x.numpy() * x.numpy()
    for rule, tier in (("", "vendor"), ("phi::multiply,matmul=portable,multiply=portable", "portable"), (".*", "cpu")):
        hardpoint.reset_counters()
        with hardpoint.fallback(rule):
            made = x.matmul(x) * x
        assert {name: counted()[name] for name in ("phi::matmul", "phi::multiply")} == {
            "phi::matmul": {tier: 1},
            "phi::multiply": {tier: 1},
        }
        np.testing.assert_allclose(made.numpy(), right, rtol=1e-4, atol=1e-5)
