"""Converters, subgraph compilers, and their failures."""

from __future__ import annotations

import uuid
import warnings

import numpy as np
import pytest
import torch

import hardpoint
from hardpoint import graph
from hardpoint.graph import converters
from hardpoint.graph.report import _listening
from hardpoint.kernels.custom import PortableKernels


@pytest.fixture
def twice():
    """A vendor's operator: 2 * x + bias."""
    space = f"vendor_{uuid.uuid4().hex[:8]}"
    library = torch.library.Library(space, "DEF")
    library.define("twice(Tensor x, float bias) -> Tensor")
    library.impl("twice", lambda x, bias: x * 2 + bias, "PrivateUse1")
    library.impl("twice", lambda x, bias: torch.empty_like(x), "Meta")
    operator = getattr(torch.ops, space).twice.default
    yield operator
    converters.CONVERTERS.pop(operator, None)
    library._destroy()


def run(operator, expected_warnings=0):
    """Check three compiled runs; returns the graphs and the warnings."""
    made = graph.Explanation()
    with warnings.catch_warnings(record=True) as caught, _listening(made):
        warnings.simplefilter("always")
        compiled = torch.compile(lambda x: operator(x.relu(), 0.5) - 1, backend="hardpoint")
        for _ in range(3):
            x = torch.randn(4, 3, device="sim")
            torch.testing.assert_close(compiled(x), x.relu() * 2 - 0.5)
    texts = [str(w.message) for w in caught if issubclass(w.category, graph.GraphWarning)]
    assert len(texts) == expected_warnings, texts
    return made.graphs, texts


def test_converter(twice):
    operator = twice

    @graph.converter(operator)
    def convert(node):
        x, bias = node.args
        return graph.Call("scale_and_add", [node.meta["val"]], [x], [2.0, bias])

    calls = []

    def kernel(out, x, scale, bias):
        calls.append((scale, bias))
        raise NotImplementedError  # the operator itself runs

    with hardpoint.kernel("scale_and_add")(kernel):
        (made,), _ = run(operator)
    assert made.lowered.kernels == [("twice", "scale_and_add")]
    assert calls[0] == (2.0, 0.5)


def test_vendor_kernel_of_a_converter():
    """The converter maps an overload to a plug-in kernel with another operator's name."""
    space = f"vendor_{uuid.uuid4().hex[:8]}"
    library = torch.library.Library(space, "DEF")
    library.define("total(Tensor x, Tensor y) -> Tensor")
    library.impl("total", lambda x, y: x + y + 100, "PrivateUse1")  # wrong on purpose: the kernel must run instead
    library.impl("total", lambda x, y: torch.empty_like(x), "Meta")
    operator = getattr(torch.ops, space).total.default

    @graph.converter(operator)
    def convert(node):
        return graph.Call("add", [node.meta["val"]], list(node.args), [1])

    try:
        compiled = torch.compile(lambda x, y: operator(x, y) * 2, backend="hardpoint")
        hardpoint.reset_counters()
        for _ in range(4):
            x, y = torch.randn(2, 5, 3, device="sim").unbind(0)
            torch.testing.assert_close(compiled(x, y), (x + y) * 2)
        assert hardpoint.counters()["hardpoint::add"] == {"vendor": 4}
    finally:
        converters.CONVERTERS.pop(operator, None)
        library._destroy()


FILL = PortableKernels(
    """HP_KERNEL(fill)(HP_GLOBAL T* out, hp_i64 elements, double value) {
  HP_FOR_ELEMENTS(i, elements) out[i] = T_put((T_c)value);
}
""",
    "vendor",
)


@pytest.mark.parametrize("takes", [True, False])
def test_random_vendor_kernel_is_recorded(takes):
    """Each replay passes a new generator state; if the kernel declines, the next tier draws the numbers."""
    states = []

    def uniform(out, seed, offset, low, high):
        states.append((seed, offset))
        if not takes:
            raise NotImplementedError
        elements = int(np.prod(out.shape))
        FILL.launch("fill", elements, out, elements, float(seed * 1000 + offset), T=out.dtype)

    def function(x):
        return torch.rand_like(x) + x * 0, torch.rand(3, 2, device="sim").t() * 1

    with hardpoint.kernel("uniform")(uniform):
        made = graph.Explanation()
        results, seen = [], []
        with _listening(made):
            for mode in (function, torch.compile(function, backend="hardpoint")):
                torch.manual_seed(7)
                states.clear()
                results.append([mode(torch.ones(40, device="sim")) for _ in range(4)])
                seen.append(list(states))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    (only,) = made.graphs
    assert only.lowered.runner.runs == (1, 1, 2)
    assert only.left_out == []
    assert len(set(seen[0])) == 8
    assert seen[1] == (seen[0] if takes else seen[0][:4])  # the portable kernel was recorded instead


def wrong_shape(node):
    return graph.Call("add", [node.meta["val"].new_empty(7)], [node.args[0]])


def wrong_dtype(node):
    return graph.Call("add", [node.meta["val"].double()], [node.args[0]])


def failing(node):
    raise KeyError("no such layout")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_shape, r"returned shape (7,) for output 0, expected (4, 3)"),
        (wrong_dtype, "returned torch.float64 for output 0"),
        (failing, "its converter failed: KeyError: 'no such layout'"),
        (lambda node: 5, "returned int, expected hardpoint.graph.Call"),
        (lambda node: graph.Call("add", [], []), "returned 0 outputs, expected 1"),
    ],
)
def test_wrong_converters(twice, function, message):
    operator = twice
    graph.converter(operator)(function)
    (made,), (text,) = run(operator, expected_warnings=1)
    assert made.lowered.kernels == []
    assert message in text
    assert str(operator) in text
    assert "runs eagerly" in text


def test_converter_requires_an_overload():
    with pytest.raises(TypeError, match="one overload"):
        graph.converter(torch.ops.aten.add)


class MatmulCompiler:
    """Compiles matrix products and the relus between them, or fails."""

    def __init__(self, fail=""):
        self.fail, self.compiled = fail, []

    def supports(self, node):
        return node.target in (torch.ops.aten.mm.default, torch.ops.aten.relu.default)

    def compile(self, module, inputs):
        if self.fail:
            raise RuntimeError(self.fail)
        self.compiled.append([n.target for n in module.graph.nodes if n.op == "call_function"])
        assert all(isinstance(x, torch.Tensor) for x in inputs)
        return module.forward


def subgraph_function(x):
    return ((x @ x).relu() @ x).exp() + (x @ x.t()).sum()


@pytest.mark.parametrize("fail", ["", "out of registers"])
def test_subgraph_compiler(fail):
    compiler = MatmulCompiler(fail)
    graph.register_compiler("products", compiler)
    try:
        made = graph.Explanation()
        with warnings.catch_warnings(record=True) as caught, _listening(made):
            warnings.simplefilter("always")
            compiled = torch.compile(subgraph_function, backend="hardpoint")
            for _ in range(4):
                x = torch.randn(5, 5, device="sim")
                torch.testing.assert_close(compiled(x), subgraph_function(x))
    finally:
        graph.unregister_compiler("products")
    (only,) = made.graphs
    texts = [str(w.message) for w in caught if issubclass(w.category, graph.GraphWarning)]
    if fail:
        assert only.lowered.delegated == []
        assert all("compile() failed: RuntimeError: out of registers" in text for text in texts)
        assert "aten.mm.default" in texts[0]
    else:
        assert texts == []
        assert sum(count for _, count in only.lowered.delegated) == 4
        assert only.lowered.runner.runs == (1, 1, 2)


def test_operator_without_meta():
    """Dynamo breaks the graph around it; it runs eagerly, and a warning names it."""
    space = f"vendor_{uuid.uuid4().hex[:8]}"
    library = torch.library.Library(space, "DEF")
    library.define("halve(Tensor x) -> Tensor")
    library.impl("halve", lambda x: x / 2, "PrivateUse1")
    halve = getattr(torch.ops, space).halve
    try:
        compiled = torch.compile(lambda x: halve(x.exp() + 1).relu() * 3, backend="hardpoint")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                x = torch.randn(6, device="sim")
                torch.testing.assert_close(compiled(x), (x.exp() + 1) / 2 * 3)
        texts = [str(w.message) for w in caught if issubclass(w.category, graph.GraphWarning)]
        assert len(texts) == 1
        assert f"{space}.halve" in texts[0]
        assert "runs eagerly" in texts[0]
    finally:
        library._destroy()
