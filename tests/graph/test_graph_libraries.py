"""Subgraph compilers in a C library: a plug-in's, or any other library's."""

from __future__ import annotations

from pathlib import Path

import pytest
from plugin_tools import ROOT, ask_python, compile_c

import hardpoint.graph

PROGRAM = """
import warnings
import torch
import hardpoint
import hardpoint.graph
from hardpoint.graph.report import Explanation, _listening

def function(x, y, z):
    return ((x * y + z) * x).tanh().sum()

def inputs():
    return [torch.randn(37) for _ in range(3)]

made, runs = Explanation(), []
with warnings.catch_warnings(record=True) as caught, _listening(made), torch.no_grad():
    warnings.simplefilter("always")
    compiled = torch.compile(function, backend="hardpoint", dynamic=DYNAMIC)
    for _ in range(4):
        given = inputs()
        found = compiled(*(x.to("test") for x in given)).cpu()
        runs.append(torch.allclose(found, function(*given), rtol=1e-5, atol=1e-6))
    with hardpoint.fallback("tanh"):  # with an active rule, operators run one by one
        given = inputs()
        runs.append(torch.allclose(compiled(*(x.to("test") for x in given)).cpu(), function(*given), rtol=1e-5))
answer = {
    "runs": runs,
    "delegated": [entry for graph in made.graphs for entry in graph.lowered.delegated],
    "counted": {k: v for k, v in hardpoint.counters().items() if "subgraph" in k},
    "warnings": [str(w.message) for w in caught if issubclass(w.category, hardpoint.graph.GraphWarning)],
    "left_out": [name for graph in made.graphs for name, _ in graph.left_out],
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugin")
    source = ROOT / "tests" / "fixtures" / "graph_plugin.c"
    return compile_c(source, folder / "libtest.so", "-Wno-unused", "-shared", "-fPIC")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["static", "dynamic", "failing"])
def test_subgraph_compiler_of_a_plugin(library: Path, tmp_path: Path, case: str):
    program = PROGRAM.replace("DYNAMIC", str(case == "dynamic"))
    fails = {"TEST_GRAPH_FAILS": "1"} if case == "failing" else {}
    answer = ask_python(program, tmp_path, HARDPOINT_DEVICE="test", HARDPOINT_PLUGIN_PATH=str(library), **fails)
    assert answer["runs"] == [True] * 5
    if case == "static":
        assert answer["delegated"] == [["test", 3]]
        assert answer["counted"] == {"hardpoint::libtest_subgraph_0": {"vendor": 4}}
        assert answer["warnings"] == []
        assert not any("subgraph" in name for name in answer["left_out"])
        return
    # The compiler declines dynamic sizes silently; a failure falls back to Hardpoint with a warning.
    assert answer["delegated"] == []
    assert answer["counted"] == {}
    if case == "failing":
        (text,) = answer["warnings"]
        assert "compile() failed: RuntimeError: out of tiles" in text
        assert "test does not compile a subgraph of" in text
        assert "aten.mul.Tensor, aten.add.Tensor" in text


def test_library_without_a_compiler():
    from hardpoint._runtime import package_file

    with pytest.raises(ValueError, match="does not export __tvm_ffi_graph_supports"):
        hardpoint.graph.LibraryCompiler(package_file("lib/libhardpoint_sim.so"))
