"""Graph mode with a vendor's operator: one node of the graph, served by one kernel of the vendor's."""

import torch

from hardpoint import graph

# The operator: what it computes, its shape for tracing, and its gradient if it needs one.
library = torch.library.Library("myops", "DEF")
library.define("scaled_sum(Tensor x, Tensor y, float scale) -> Tensor")
library.impl("scaled_sum", lambda x, y, scale: x + scale * y, "PrivateUse1")
library.impl("scaled_sum", lambda x, y, scale: torch.empty_like(x), "Meta")


# The kernel: here sim's own `add`, which takes out, self, other and alpha.
@graph.converter(torch.ops.myops.scaled_sum.default)
def convert(node: torch.fx.Node) -> graph.Call:
    x, y, scale = node.args
    return graph.Call("add", outputs=[node.meta["val"]], inputs=[x, y], attributes=[scale])


class Products:
    """Takes matrix products and leaves the rest to Hardpoint. A plug-in's graph compiler looks the same."""

    def supports(self, node: torch.fx.Node) -> bool:
        return node.target is torch.ops.aten.mm.default

    def compile(self, module: torch.fx.GraphModule, inputs):
        return module.forward  # a real compiler returns what it made of the module


graph.register_compiler("products", Products())


def function(x, y):
    return torch.ops.myops.scaled_sum(x, y, 0.5).relu() @ y * 2 + 1


x, y = torch.randn(2, 4, 4, device="sim")
report = graph.explain(function, (x, y))
print(report)
torch.testing.assert_close(torch.compile(function, backend="hardpoint")(x, y), function(x, y))
