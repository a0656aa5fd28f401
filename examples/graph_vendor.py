"""Graph mode with a custom operator: one graph node, served by one vendor kernel."""

import torch

from hardpoint import graph

# The operator: its implementation, and a meta function for tracing.
library = torch.library.Library("myops", "DEF")
library.define("scaled_sum(Tensor x, Tensor y, float scale) -> Tensor")
library.impl("scaled_sum", lambda x, y, scale: x + scale * y, "PrivateUse1")
library.impl("scaled_sum", lambda x, y, scale: torch.empty_like(x), "Meta")


# The kernel: sim's `add`, which takes out, self, other and alpha.
@graph.converter(torch.ops.myops.scaled_sum.default)
def convert(node: torch.fx.Node) -> graph.Call:
    x, y, scale = node.args
    return graph.Call("add", outputs=[node.meta["val"]], inputs=[x, y], attributes=[scale])


class Products:
    """Subgraph compiler for matrix products; Hardpoint compiles the rest. A plug-in's graph compiler looks the same."""

    def supports(self, node: torch.fx.Node) -> bool:
        return node.target is torch.ops.aten.mm.default

    def compile(self, module: torch.fx.GraphModule, inputs):
        return module.forward  # a real compiler returns the compiled module


graph.register_compiler("products", Products())


def function(x, y):
    return torch.ops.myops.scaled_sum(x, y, 0.5).relu() @ y * 2 + 1


x, y = torch.randn(2, 4, 4, device="sim")
report = graph.explain(function, (x, y))
print(report)
torch.testing.assert_close(torch.compile(function, backend="hardpoint")(x, y), function(x, y))
