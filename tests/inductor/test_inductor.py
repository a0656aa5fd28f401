"""``torch.compile`` with no other argument, on sim, against eager mode on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import nn


def close(got, want, tolerance=1e-5):
    torch.testing.assert_close(got.cpu(), want, rtol=tolerance, atol=tolerance)


def test_forward(triton_calls):
    def f(x, w, b):
        return torch.softmax(F.gelu(x @ w) + b, -1)

    given = torch.randn(65, 96), torch.randn(96, 127), torch.randn(127)
    close(torch.compile(f)(*(x.to("sim") for x in given)), f(*given))
    launches, on_cpu = triton_calls()
    assert launches >= 1
    assert on_cpu == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes(dtype):
    def f(x):
        return F.layer_norm(x * torch.sigmoid(x), x.shape[-1:])

    x = torch.randn(10, 200).to(dtype)
    close(torch.compile(f)(x.to("sim")).float(), f(x.float()), 1e-5 if dtype == torch.float64 else 3e-2)


def test_dynamic_shapes(triton_calls):
    @torch.compile(dynamic=True)
    def f(x):
        return (x * 2 + 1).sum(-1)

    for rows, columns in ((3, 5), (17, 200), (1000, 33)):
        x = torch.randn(rows, columns)
        close(f(x.to("sim")), (x * 2 + 1).sum(-1), 1e-4)
    assert triton_calls()[0] >= 3


@pytest.mark.parametrize("sizes", [(64, 32), (3000, 7), (1, 100000)])
def test_reductions_that_inductor_splits(sizes):
    def f(x):
        return (x * 2).sum(0), x.sum(), x.var(1, unbiased=False)

    x = torch.rand(*sizes)
    for got, want in zip(torch.compile(f)(x.to("sim")), f(x.double()), strict=True):
        close(got.double(), want, 1e-3)


def test_views_mutation_and_indexing():
    def f(x, index):
        y = x.t().contiguous()
        y[1:3] += 5
        z = torch.cat([y, y.flip(0)])[index]
        return z.cumsum(0), z.max(1), torch.where(z > 0, z, z.mean())

    x, index = torch.randn(20, 12), torch.tensor([0, 5, 5, -1])
    got, want = torch.compile(f)(x.to("sim"), index.to("sim")), f(x, index)
    close(got[0], want[0])
    close(got[1].values, want[1].values)
    assert torch.equal(got[1].indices.cpu(), want[1].indices)
    close(got[2], want[2])


def test_an_index_out_of_range_is_reported():
    f = torch.compile(lambda x, i: x[i] * 2)
    x = torch.randn(10, device="sim")
    close(f(x, torch.tensor([1, 9], device="sim")), x.cpu()[[1, 9]] * 2)
    with pytest.raises(RuntimeError, match="a device assertion failed"):
        f(x, torch.tensor([1, 10], device="sim")).cpu()


def test_dropout_draws_new_numbers():
    f = torch.compile(lambda x: F.dropout(x, 0.25))
    x = torch.ones(10000, device="sim")
    torch.manual_seed(0)
    first, second = f(x).cpu(), f(x).cpu()
    assert not torch.equal(first, second)
    assert set(first.tolist()) == {0.0, torch.tensor(1 / 0.75).item()}
    assert abs((first == 0).float().mean().item() - 0.25) < 0.02
    torch.manual_seed(0)
    assert torch.equal(f(x).cpu(), first)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.head = nn.Sequential(nn.Linear(128, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.head(F.max_pool2d(F.relu(self.norm(self.conv(x))), 2).flatten(1))


def train(device, compiled, autocast=False):
    torch.manual_seed(1)
    net, data, labels = Net().to(device), torch.randn(4, 3, 8, 8).to(device), torch.randint(0, 10, (4,)).to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    model, losses = torch.compile(net) if compiled else net, []
    for _ in range(4):
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(data), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return torch.tensor(losses)


@pytest.mark.slow
def test_training(triton_calls):
    close(train("sim", True), train("cpu", False), 1e-4)
    launches, on_cpu = triton_calls()
    assert launches >= 20
    assert on_cpu == []


@pytest.mark.slow
def test_training_under_autocast():
    close(train("sim", True, autocast=True), train("cpu", False), 5e-2)


@triton.jit
def scale(x, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


def test_a_triton_kernel_inside(triton_calls):
    @torch.compile(fullgraph=True)
    def f(x):
        y = x + 1
        out = torch.empty_like(y)
        scale[(triton.cdiv(y.numel(), 256),)](y, out, y.numel(), 3.0, BLOCK=256)
        return out.relu()

    x = torch.randn(1000)
    close(f(x.to("sim")), ((x + 1) * 3).relu())
    assert triton_calls()[0] >= 2


def test_triton_op():
    @torch.library.triton_op("hardpoint_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(scale)[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), 2.0, BLOCK=256)
        return out

    x = torch.randn(300)
    close(scaled(x.to("sim")), x * 2)
    close(torch.compile(lambda x: scaled(x) + 1)(x.to("sim")), x * 2 + 1)


@pytest.mark.slow
def test_the_cpu_is_untouched(triton_calls):
    x = torch.randn(100)
    close(torch.compile(lambda x: x.sin() + 1)(x), x.sin() + 1)
    assert triton_calls()[0] == 0


@pytest.mark.slow
def test_aot_inductor_is_refused():
    net = nn.Linear(3, 2, device="sim")
    exported = torch.export.export(net, (torch.ones(1, 3, device="sim"),))
    with pytest.raises(Exception, match="AOTInductor and cpp_wrapper do not support sim"):
        torch._inductor.aoti_compile_and_package(exported)
    with torch._inductor.config.patch(cpp_wrapper=True):
        f = torch.compile(lambda x: x + 1)
        with pytest.raises(Exception, match="AOTInductor and cpp_wrapper do not support sim"):
            f(torch.ones(2, device="sim"))


def test_two_devices():
    f = torch.compile(lambda x, y: (x * 2).to("sim:1") + y)
    x, y = torch.randn(50), torch.randn(50)
    close(f(x.to("sim:0"), y.to("sim:1")), x * 2 + y)


@pytest.mark.slow
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_convolutions_keep_their_memory_format(layout):
    torch.manual_seed(2)
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1, stride=2), nn.Flatten()]
    expected, x = nn.Sequential(*layers), torch.randn(2, 3, 8, 8)
    found = copy.deepcopy(expected).to("sim").to(memory_format=layout)
    with torch._inductor.utils.fresh_inductor_cache():
        got = torch.compile(found)(x.to("sim").to(memory_format=layout))
        got.square().sum().backward()
    want = expected(x)
    want.square().sum().backward()
    close(got.detach(), want.detach(), 1e-4)
    for ours, theirs in zip(found.parameters(), expected.parameters(), strict=True):
        close(ours.grad, theirs.grad, 1e-3)


@pytest.mark.slow
def test_flex_attention(triton_calls):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch.manual_seed(3)
    length, width = 140, 16
    given = [torch.randn(1, 2, length, width) for _ in range(3)]
    row, column = torch.arange(length)[:, None], torch.arange(length)[None]

    def plain(q, k, v):
        scores = q @ k.transpose(-1, -2) / width**0.5 + (column - row) * 0.01
        return scores.masked_fill(row < column, -float("inf")).softmax(-1) @ v

    def bias(score, b, h, i, j):
        return score + (j - i) * 0.01

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, length, length, device="sim")
    theirs = [x.clone().requires_grad_() for x in given]
    ours = [x.to("sim").requires_grad_() for x in given]
    want, got = plain(*theirs), torch.compile(flex_attention)(*ours, score_mod=bias, block_mask=mask)
    close(got.detach(), want.detach(), 1e-4)
    want.square().sum().backward()
    got.square().sum().backward()
    for mine, their in zip(ours, theirs, strict=True):
        close(mine.grad, their.grad, 1e-4)
    assert triton_calls()[1] == []


@pytest.mark.slow
def test_max_autotune(triton_calls):
    f = torch.compile(lambda x, w: torch.softmax(F.relu(x @ w), -1), mode="max-autotune")
    x, w = torch.randn(40, 50), torch.randn(50, 70)
    for _ in range(2):
        close(f(x.to("sim"), w.to("sim")), torch.softmax(F.relu(x @ w), -1))
    assert triton_calls()[0] >= 2


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_a_pointwise_function(reverse, triton_calls):
    from torch._higher_order_ops.associative_scan import associative_scan

    def step(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    def recurrence(factors, values):
        return associative_scan(step, (factors, values), dim=0, reverse=reverse, combine_mode="pointwise")

    torch.manual_seed(5)
    factors, values = torch.rand(70, 9), torch.randn(70, 9)
    got = torch.compile(recurrence, fullgraph=True)(factors.to("sim"), values.to("sim"))
    product, total, wanted = torch.ones(9), torch.zeros(9), []
    for i in reversed(range(70)) if reverse else range(70):
        product, total = product * factors[i], total * factors[i] + values[i]
        wanted.append((product, total))
    if reverse:
        wanted.reverse()
    for found, expected in zip(got, zip(*wanted, strict=True), strict=True):
        torch.testing.assert_close(found.cpu(), torch.stack(expected), rtol=1e-4, atol=1e-5)
    launches, on_cpu = triton_calls()
    assert launches > 0
    assert on_cpu == []


def test_flex_attention_of_few_queries(triton_calls):
    """Inductor has a kernel of its own for these, which splits the keys among compute units."""
    from torch.nn.attention.flex_attention import flex_attention

    torch.manual_seed(4)
    given = [torch.randn(2, 2, length, 16) for length in (3, 40, 40)]
    got = torch.compile(flex_attention, fullgraph=True)(*(x.to("sim") for x in given))
    torch.testing.assert_close(got.cpu(), F.scaled_dot_product_attention(*given), rtol=1e-4, atol=1e-5)
    launches, on_cpu = triton_calls()
    assert launches > 0
    assert on_cpu == []
