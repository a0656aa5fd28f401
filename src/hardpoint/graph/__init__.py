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
from hardpoint.graph.library_compiler import LibraryCompiler
from hardpoint.graph.report import Explanation, Graph, explain

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
