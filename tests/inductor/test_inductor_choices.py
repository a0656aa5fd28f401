"""Inductor's measurements and choices on a mounted device, without compiling a model."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.compile_fx  # the device is registered now
from torch._inductor import utils
from torch._inductor.fx_passes import pad_mm
from torch._inductor.runtime import benchmarking

from hardpoint.inductor import padding, templates
from hardpoint.triton import generators


def test_times_are_those_of_the_device(monkeypatch):
    """Without a device type, as Inductor's padding of matrix products calls it; torch.cuda is never asked."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: pytest.fail("torch.cuda was asked"))
    calls = []
    x = torch.randn(300, 300, device="sim")

    def multiply():
        calls.append(1)
        return x @ x

    found = benchmarking.benchmarker.benchmark_gpu(multiply, benchmark_iters=7, return_mode="all")
    assert 1 <= len(found) <= 7
    assert len(calls) == 1 + 5 + len(found)
    assert all(0 < time < 1000 for time in found)
    assert benchmarking.benchmarker.benchmark_gpu(multiply, benchmark_iters=3, device_type="sim") > 0
    median = benchmarking.benchmarker.benchmark_gpu(multiply, benchmark_iters=3, return_mode="median")
    assert isinstance(median, float)


@pytest.fixture
def for_gpus(monkeypatch):
    """Pretend that sim has many compute units, and that a compiler for GPUs builds its kernels."""
    monkeypatch.setattr(generators, "kind", lambda name: "vendor")
    for module, name in ((pad_mm, "check_device"), (utils, "is_big_gpu")):
        monkeypatch.setattr(module, name, getattr(module, name))


def test_padding_is_for_gpus(for_gpus):
    x = torch.ones(2, 2, device="sim")
    assert not pad_mm.check_device(x, x)
    padding.register("sim")
    assert pad_mm.check_device(x, x)
    assert not pad_mm.check_device(x, x.cpu())
    assert not pad_mm.check_device(x.cpu(), x.cpu())


def test_templates_are_for_gpus(for_gpus, monkeypatch):
    from torch._inductor.template_heuristics import registry

    known = dict(registry._TEMPLATE_HEURISTIC_REGISTRY)
    monkeypatch.setattr(registry, "_TEMPLATE_HEURISTIC_REGISTRY", known)
    monkeypatch.setattr(templates, "BIG_GPU_UNITS", 1)
    assert not utils.is_big_gpu(torch.device("sim"))
    assert not any(device == "sim" for _, device, _ in known)
    templates.register("sim")
    assert utils.is_big_gpu(torch.device("sim"))
    offered = {template for template, device, _ in known if device == "sim"}
    assert any("mm" in template for template in offered)
    assert not any("tma" in template for template in offered)
