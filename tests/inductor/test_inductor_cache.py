"""Compiled graphs in the cache belong to the version of Hardpoint that made them."""

from __future__ import annotations

import pytest
import torch._inductor.compile_fx  # registers the device
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_inductor_cache

from hardpoint.inductor import cache_key


@pytest.mark.slow
def test_another_version_of_hardpoint_does_not_use_a_graph_from_the_cache(monkeypatch):
    config = torch.compiler.config
    x = torch.arange(5.0, device="sim")

    def compile_once():
        torch._dynamo.reset()
        counters.clear()
        assert torch.compile(lambda x: x * 3 + 1)(x).tolist() == [1, 4, 7, 10, 13]
        return counters["aot_autograd"]["autograd_cache_hit"] + counters["inductor"]["fxgraph_cache_hit"]

    with fresh_inductor_cache():
        assert compile_once() == 0
        assert compile_once() > 0
        ours = config.cache_key_tag
        assert cache_key.version() in ours
        monkeypatch.setattr(cache_key, "version", lambda: "0.0.0-other")
        monkeypatch.setattr(config, "cache_key_tag", "mine")
        cache_key.extend("sim")
        assert config.cache_key_tag == "mine hardpoint-sim-0.0.0-other"
        cache_key.extend("sim")
        assert config.cache_key_tag == "mine hardpoint-sim-0.0.0-other"
        assert compile_once() == 0
        config.cache_key_tag = ours
        assert compile_once() > 0
