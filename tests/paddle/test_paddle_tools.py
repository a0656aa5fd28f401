"""Fallback rules on Paddle calls. The other tools are tested in tests/debug/test_paddle_calls.py."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import paddle
from paddle import profiler

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


def test_paddle_profiler(tmp_path: Path):
    targets = [profiler.ProfilerTarget.CPU, profiler.ProfilerTarget.CUSTOM_DEVICE]
    ready = profiler.export_chrome_tracing(str(tmp_path))
    x = paddle.randn([16, 16])
    with profiler.Profiler(targets=targets, custom_device_types=["sim"], on_trace_ready=ready) as tracing:
        for _ in range(3):
            x = x.matmul(x)
            tracing.step()
    (trace,) = tmp_path.iterdir()
    names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"] if "name" in event]
    assert sum("matmul" in name for name in names) >= 3
