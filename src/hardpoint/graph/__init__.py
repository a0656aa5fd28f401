"""Graph mode: ``torch.compile(model, backend="hardpoint")``."""

from __future__ import annotations

from hardpoint.graph.converters import (
    Call,
    GraphWarning,
    SubgraphCompiler,
    converter,
    register_compiler,
    unregister_compiler,
)
from hardpoint.graph.explaining import Explanation, Graph, explain

__all__ = [
    "Call",
    "Explanation",
    "Graph",
    "GraphWarning",
    "SubgraphCompiler",
    "converter",
    "explain",
    "register_compiler",
    "unregister_compiler",
]
