"""Graph mode equals eager mode in the first run, the recorded run, and replays."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import hardpoint
import hardpoint.graph
from hardpoint.graph.backend import compile_graph
from hardpoint.graph.report import Explanation, _listening

RUNS = 4  # one plain, one recorded, two replayed


def compiled(function, **options):
    return torch.compile(function, backend="hardpoint", **options)


def check(function, make_inputs, **options):
    """Compare every run with eager mode, with new inputs each time; returns the graphs."""
    made = Explanation()
    with _listening(made):
        graph = compiled(function, **options)
        for _ in range(RUNS):
            inputs = make_inputs()
            expected, found = function(*inputs), graph(*inputs)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    return made.graphs


def test_first_recorded_and_replayed():
    net = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to("sim")
    with torch.no_grad():
        (graph,) = check(lambda x: net(x).sigmoid() * 2 - 1, lambda: (torch.randn(8, 16, device="sim"),))
    assert graph.lowered.runner.runs == (1, 1, 2)
    assert graph.left_out == []
    assert graph.fused == ["hardpoint::fused(sigmoid,mul,sub)"]


def test_option_record():
    (graph,) = check(lambda x: x.exp() + 1, lambda: (torch.randn(5, device="sim"),), options={"record": False})
    assert graph.lowered.runner.runs == (RUNS, 0, 0)
    with pytest.raises(Exception, match="no option fast"):
        compiled(lambda x: x + 1, options={"fast": True})(torch.ones(1, device="sim"))


def test_training():
    first = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 1)).to("sim")
    second = copy.deepcopy(first)
    step = compiled(lambda net, x: net(x).square().mean())
    for _ in range(RUNS):
        x = torch.randn(4, 8, device="sim")
        for net, loss in ((first, lambda net, x: net(x).square().mean()), (second, step)):
            net.zero_grad()
            loss(net, x).backward()
            with torch.no_grad():
                for parameter in net.parameters():
                    parameter -= 0.1 * parameter.grad
        for one, other in zip(first.parameters(), second.parameters(), strict=True):
            torch.testing.assert_close(other.grad, one.grad)
            torch.testing.assert_close(other, one)


def test_buffers_are_updated():
    first = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to("sim")
    second = copy.deepcopy(first)
    graph = compiled(second)
    for _ in range(RUNS):
        x = torch.randn(2, 2, 6, 6, device="sim")
        torch.testing.assert_close(graph(x), first(x))
    assert second[1].num_batches_tracked.item() == RUNS
    for one, other in zip(first.buffers(), second.buffers(), strict=True):
        torch.testing.assert_close(other, one)


def test_inputs_are_updated():
    def function(total, x):
        before = total.sum()
        total.add_(x)
        x.mul_(2)
        return before, total * 2

    made = compiled(function)
    ours, eager = (torch.zeros(3, 4, device="sim") for _ in range(2))
    for _ in range(RUNS):
        x = torch.randn(3, 4, device="sim")
        y = x.clone()
        torch.testing.assert_close(made(ours, y), function(eager, x))
        torch.testing.assert_close(y, x)
    torch.testing.assert_close(ours, eager)


def test_views_and_aliases():
    def function(x, y):
        view = x.t()[1:]
        return view, x, y.view(-1), (view + 1).t(), y.expand(3, 4, 2)

    def inputs():
        return torch.randn(5, 6, device="sim"), torch.randn(4, 2, device="sim")

    check(function, inputs)
    made = compiled(function)
    for _ in range(RUNS):
        x, y = inputs()
        view, same, flat, *_ = made(x, y)
        x.zero_()
        y.fill_(3)
        assert view.count_nonzero() == same.count_nonzero() == 0
        assert (flat == 3).all()


def test_aliased_inputs():
    """Halves of one tensor, then separate tensors: a recording is specific to one of the two."""
    made = compiled(lambda a, b: (a * b + a, b.exp() - a))
    for _ in range(2 * RUNS):
        whole = torch.randn(4, 6, device="sim")
        for a, b in ((whole[:, :3], whole[:, 3:]), (whole[:, :3].t().contiguous().t(), whole[:, 3:])):
            torch.testing.assert_close(made(a, b), (a * b + a, b.exp() - a))


def test_results_outlive_later_runs():
    made = compiled(lambda x: ((x + 1).relu() @ x.t()).tanh() + 1)
    inputs = [torch.randn(6, 6, device="sim") for _ in range(6)]
    results = [made(x) for x in inputs]
    for x, result in zip(inputs, results, strict=True):
        torch.testing.assert_close(result, ((x + 1).relu() @ x.t()).tanh() + 1)


@pytest.mark.parametrize("grad", [False, True])
def test_random_numbers(grad):
    """Same numbers as eager mode, new ones in each run, reproducible by the seed."""
    x = torch.randn(64, 8, device="sim", requires_grad=grad)

    def function(x):
        return F.dropout(x, 0.3) + F.dropout(x * 2, 0.6) + torch.rand_like(x)

    made = compiled(function)
    results = []
    for mode in (function, made):
        torch.manual_seed(5)
        results.append([mode(x).detach() for _ in range(RUNS)])
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)
    assert not torch.equal(results[1][2], results[1][3])
    torch.manual_seed(5)
    torch.testing.assert_close(made(x).detach(), results[0][0])


def test_dropout_gradient():
    x = torch.randn(32, 8, device="sim", requires_grad=True)
    made = compiled(lambda x: (F.dropout(x, 0.5) * 3).sum())
    for _ in range(RUNS):
        state = torch.sim.get_rng_state()
        (gradient,) = torch.autograd.grad(made(x), x)
        torch.sim.set_rng_state(state)
        (expected,) = torch.autograd.grad((F.dropout(x, 0.5) * 3).sum(), x)
        torch.testing.assert_close(gradient, expected)


def test_dynamic_shapes():
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU()).to("sim")

    def function(x):
        rows = x.size(0)
        return (net(x).reshape(rows * 2, 4) * 2 + rows).softmax(-1), x.new_zeros(rows // 2 + 1)

    made = Explanation()
    with _listening(made), torch.no_grad():
        graph = compiled(function, dynamic=True)
        for rows in (4, 6, 4, 7, 4, 6, 9, 6):
            x = torch.randn(rows, 8, device="sim")
            torch.testing.assert_close(graph(x), function(x))
    assert len(made.graphs) == 1
    assert made.graphs[0].lowered.runner.runs == (4, 2, 2)


def test_dynamic_shapes_in_training():
    made = compiled(lambda x, w: ((x @ w).tanh() * x.size(0)).sum(), dynamic=True)
    w = torch.randn(8, 3, device="sim", requires_grad=True)
    for rows in (4, 5, 4, 4, 5, 5):
        x = torch.randn(rows, 8, device="sim")
        (gradient,) = torch.autograd.grad(made(x, w), w)
        (expected,) = torch.autograd.grad(((x @ w).tanh() * rows).sum(), w)
        torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        *(("nearest", (2, 3, 5, 6)), ("nearest-exact", (2, 3, 6)), ("trilinear", (2, 3, 2, 3, 4))),
        *(("bilinear", (2, 3, 5, 6)), ("bicubic", (2, 3, 5, 6))),
    ],
)
def test_interpolation_stays_one_operator(mode, shape):
    """torch would decompose it into gathers by index; here it is one kernel forward and one backward."""
    made = Explanation()
    weights = torch.randn(*shape[:2], *(2 * n for n in shape[2:]))

    def function(x):
        return F.interpolate(x, scale_factor=2, mode=mode)

    with _listening(made):
        graph = compiled(function, dynamic=True)
        for _ in range(RUNS):
            x = torch.randn(shape, requires_grad=True)
            y = x.detach().to("sim").requires_grad_()
            found, expected = graph(y), function(x)
            torch.testing.assert_close(found.cpu(), expected)
            (gradient,) = torch.autograd.grad((found * weights.to("sim")).sum(), y)
            torch.testing.assert_close(gradient.cpu(), torch.autograd.grad((expected * weights).sum(), x)[0])
    assert [each.lowered.nodes for each in made.graphs] == [1, 1]


def test_graph_breaks():
    def function(x):
        y = x.exp() + 1
        if y.sum().item() > 0:
            y = y * 2
        return y.log()

    check(function, lambda: (torch.randn(4, device="sim"),))


def test_unrecordable_operators_run_between_recordings():
    def function(x, n):
        y = (x * 2).relu()
        z = torch.linalg.eigvals(y @ y.t()).real.sort()[0]  # runs on the CPU
        return (z + 1).tanh() * n + y.sum()

    (graph,) = check(function, lambda: (torch.randn(3, 5, device="sim"), torch.tensor(1.5)))
    assert graph.lowered.runner.runs == (1, 1, 2)
    reasons = dict(graph.lowered.runner.describe()["left_out"])
    assert any("linalg_eig" in name for name in reasons)
    assert any(why == "it takes a CPU tensor" for why in reasons.values())


def test_another_kernel_after_recording():
    made = compiled(lambda x: x.relu())
    x = torch.randn(10, device="sim")
    for _ in range(RUNS):
        made(x)
    calls = []

    def relu(output, given):
        calls.append(output.shape)
        raise NotImplementedError

    with hardpoint.kernel("relu")(relu):
        torch.testing.assert_close(made(x), x.relu())
        assert len(calls) == 2
    torch.testing.assert_close(made(x), x.relu())
    assert len(calls) == 2


def test_counters_count_replays():
    made = compiled(lambda x: (x @ x).relu())
    x = torch.randn(4, 4, device="sim")
    for _ in range(RUNS):
        made(x)
    hardpoint.reset_counters()
    made(x)
    counted = {name: sum(tiers.values()) for name, tiers in hardpoint.counters().items()}
    assert counted == {"aten::mm": 1, "aten::relu": 1}


def test_tools_see_each_operator():
    made = compiled(lambda x: (x.sigmoid() * 2 + 1).exp())
    x = torch.randn(6, device="sim")
    for _ in range(RUNS):
        made(x)
    hardpoint.reset_counters()
    with hardpoint.compare() as report:
        made(x)
    assert "aten::sigmoid" in hardpoint.counters()
    assert not any(name.startswith("hardpoint::fused") for name in hardpoint.counters())
    assert report is not None
    with hardpoint.fallback("exp"):
        hardpoint.reset_counters()
        torch.testing.assert_close(made(x), (x.sigmoid() * 2 + 1).exp())
        assert "cpu" in hardpoint.counters()["aten::exp"]


def test_threads():
    made = compiled(lambda x: (x @ x.t()).tanh() + x.sum())
    x = torch.randn(16, 16, device="sim")
    expected = (x @ x.t()).tanh() + x.sum()
    for _ in range(RUNS):
        made(x)
    wrong = []

    def work():
        for _ in range(50):
            if not torch.allclose(made(x), expected):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_another_stream():
    made = compiled(lambda x: (x * 3).exp() @ x)
    x = torch.randn(8, 8, device="sim")
    for stream in (torch.Stream("sim"), torch.Stream("sim")):
        with stream:
            for _ in range(RUNS):
                found = made(x)
        stream.synchronize()
        torch.testing.assert_close(found, (x * 3).exp() @ x)


def test_index_out_of_range_is_reported_in_replays():
    table = torch.randn(5, 3, device="sim")
    made = compiled(lambda i: F.embedding(i, table) * 2)
    good = torch.tensor([0, 4], device="sim")
    for _ in range(RUNS):
        made(good)
    made(torch.tensor([0, 9], device="sim"))
    with pytest.raises(RuntimeError, match="index 9 is out of bounds"):
        torch.sim.synchronize()
    torch.testing.assert_close(made(good), F.embedding(good, table) * 2)


def test_a_model_on_the_cpu_still_compiles():
    check(lambda x: (x + 1).exp() * 2, lambda: (torch.randn(3),))


def test_memory_is_planned_and_given_back():
    def function(x, buffer):
        first = x @ x
        z = first
        for _ in range(6):
            z = (z @ z).tanh()
        buffer.copy_(z)
        return first

    x, buffer = torch.randn(64, 64, device="sim") / 8, torch.zeros(64, 64, device="sim")
    made = hardpoint.graph.explain(function, (x, buffer))
    (graph,) = made.graphs
    temporaries = graph.plan["temporaries"]
    for one in temporaries:
        for other in temporaries:
            if one is other or one[2] >= other[3] or other[2] >= one[3]:
                continue
            assert one[1] + one[0] <= other[1] or other[1] + other[0] <= one[1], (one, other)
    assert graph.plan["most_alive"] <= graph.plan["arena_bytes"] < sum(size for size, *_ in temporaries)
    text = str(made)
    assert "15 nodes" in text
    assert "temporaries" in text
    graph_function = compiled(function)
    for _ in range(RUNS):
        graph_function(x, buffer)
    torch.sim.synchronize()
    before = torch.sim.memory_allocated()
    for _ in range(3):
        graph_function(x, buffer)
    torch.sim.synchronize()
    assert torch.sim.memory_allocated() == before


def test_memory_of_released_inputs_is_allocated_again():
    """A view into memory that was two inputs before: replays must not take it for the second input."""
    elements = 1 << 20

    def function(matrix, a, b):
        mean = (a + b).mean()  # the last use of a and b
        product = matrix @ matrix[:4]  # allocated where a and b were
        return product[elements // 4 :].exp2(), mean

    with torch.sim.stream(torch.sim.Stream()):  # it has its own pool of memory
        matrix = torch.randn(elements // 2, 4, device="sim")
        traced = make_fx(function, tracing_mode="fake")(
            matrix, *(torch.randn(elements, device="sim") for _ in range(2))
        )
        run = compile_graph(traced, [matrix], "released", {})
        for _ in range(RUNS):
            torch.sim.synchronize()
            torch.sim.empty_cache()
            inputs = [matrix, *(torch.randn(elements, device="sim") for _ in range(2))]
            assert inputs[2].data_ptr() == inputs[1].data_ptr() + 4 * elements
            expected = function(*(value.cpu() for value in inputs))
            found = run(inputs)  # empties the list
            torch.testing.assert_close([value.cpu() for value in found], list(expected), rtol=1e-4, atol=1e-3)
            del found
