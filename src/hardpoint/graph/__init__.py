"""Graph mode: ``torch.compile(model, backend="hardpoint")``."""

from __future__ import annotations

from hardpoint.graph.converters import (
    Call,
    GraphWarning,
    SubgraphCompiler,
    SubgraphKernel,
    converter,
    register_compiler,
    unregister_compiler,
)
from hardpoint.graph.explaining import Explanation, Graph, explain
from hardpoint.graph.libraries import LibraryCompiler

__all__ = [
    "Call",
    "Explanation",
    "Graph",
    "GraphWarning",
    "LibraryCompiler",
    "SubgraphCompiler",
    "SubgraphKernel",
    "converter",
    "explain",
    "register_compiler",
    "unregister_compiler",
]
