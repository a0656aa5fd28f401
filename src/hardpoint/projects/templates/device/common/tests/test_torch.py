"""mychip against the CPU: values, gradients, training, graph mode, and the tiers used."""

import copy

import hardpoint
import pytest
import torch

#: Hardpoint's torch.compile backend, if installed.
BACKEND = "hardpoint" if "hardpoint" in torch._dynamo.list_backends() else "aot_eager"


def both(function, *shapes, dtype=torch.float32):
    """Run a function on the CPU and on the device with the same random inputs."""
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    hardpoint.reset_counters()
    return function(*inputs), function(*(x.to("mychip") for x in inputs)).cpu()


def test_device():
    assert torch.accelerator.current_accelerator().type == "mychip"
    assert torch.ones(2, device="mychip").tolist() == [1, 1]


@pytest.mark.parametrize("shapes", [[(3, 4), (3, 4)], [(3, 4), (4,)], [(), ()], [(2, 1, 5), (3, 1)]])
def test_add(shapes):
    expected, got = both(lambda a, b: torch.add(a, b, alpha=0.5), *shapes)
    torch.testing.assert_close(got, expected)
    assert hardpoint.counters()["aten::add.Tensor"] == {"vendor": 1}


def test_add_a_number():
    expected, got = both(lambda a: a + 1, (3, 4))
    torch.testing.assert_close(got, expected)
    assert hardpoint.counters()["aten::add.Tensor"] == {"vendor": 1}


@pytest.mark.parametrize("shapes", [[(3, 4), (4, 5)], [(2, 3, 4), (2, 4, 5)]])
def test_matmul(shapes):
    expected, got = both(torch.matmul, *shapes)
    torch.testing.assert_close(got, expected)
    assert {"vendor": 1} in hardpoint.counters().values()


def test_declined_calls_go_to_the_next_tier():
    expected, got = both(torch.add, (3,), (3,), dtype=torch.float64)
    torch.testing.assert_close(got, expected)
    assert "vendor" not in hardpoint.counters()["aten::add.Tensor"]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "graph"])
def test_training_matches_the_cpu(compiled):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    x, y = torch.randn(32, 8), torch.randn(32, 4)

    def train(device):
        net = copy.deepcopy(model).to(device)
        run = torch.compile(net, backend=BACKEND) if compiled and device != "cpu" else net
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(run(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses, [p.detach().cpu() for p in net.parameters()]

    (expected, right), (got, weights) = train("cpu"), train("mychip")
    assert got == pytest.approx(expected, rel=1e-4)
    assert got[-1] < got[0]
    torch.testing.assert_close(weights, right)


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="mychip:0"):
        torch.empty(1 << 60, dtype=torch.uint8, device="mychip")
    assert (torch.ones(2, device="mychip") + 1).tolist() == [2, 2]
