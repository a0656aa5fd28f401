"""Index reads: every dtype and layout against the CPU, and bounds checks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from opinfo import INDEX, on_cpu

import hardpoint

DTYPES = (
    *(torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.complex128),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
)
LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 1),
    "step": lambda t: t[:, ::2],
    "expanded": lambda t: t[:1].expand(6, *t.shape[1:]),
    "offset": lambda t: t[2:, 1:],
}


def assert_same(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> None:
    """Compare with the CPU; nothing may run in the CPU tier."""
    expected = function(*tensors)
    moved = [on_device(t) for t in tensors]
    hardpoint.reset_counters()
    actual = function(*moved)
    assert not on_cpu(*INDEX)
    assert actual.dtype == expected.dtype
    assert torch.equal(actual.cpu(), expected)


def on_device(t: torch.Tensor) -> torch.Tensor:
    """Copy to the device with the same layout, which `to` would make dense."""
    whole = torch.empty(0, dtype=t.dtype).set_(t.untyped_storage())
    return whole.to("sim").as_strided(t.shape, t.stride(), t.storage_offset())


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_and_layout(layout: str, dtype: torch.dtype) -> None:
    x = LAYOUTS[layout](torch.testing.make_tensor(6, 6, 5, dtype=dtype, device="cpu"))
    rows, columns, depth = x.shape
    i, j = torch.randint(-rows, rows, (4, 3)), torch.randint(-columns, columns, (3,))
    k = torch.randint(0, depth, (7,))
    assert_same(lambda x, i: x[i], x, i)
    assert_same(lambda x, i, j: x[i, j], x, i, j)
    assert_same(lambda x, i, j: x[:, j, :][:, :, :1], x, i, j)
    assert_same(lambda x, i, k: x[i, :, k[:3]], x, i, k)
    assert_same(lambda x, k: x[..., k], x, k)
    assert_same(lambda x, m: x[m], x, torch.rand(x.shape) > 0.5)
    assert_same(lambda x, m: x[:, m], x, torch.rand(columns) > 0.5)
    assert_same(lambda x, k: x.index_select(2, k), x, k)
    assert_same(lambda x, k: x.index_select(-1, k.int()), x, k)
    assert_same(lambda x, j: x.index_select(1, j % x.shape[1]), x, j)
    assert_same(lambda x, i: torch.gather(x, 1, i), x, torch.randint(0, columns, (rows, 9, depth)))
    assert_same(
        lambda x, i: torch.gather(x, 0, i), x, torch.randint(0, rows, (5, columns, depth)).transpose(1, 2)[:, :3, :2]
    )
    assert_same(
        lambda x, i: torch.gather(x, 2, i), x, torch.randint(0, depth, (1, columns, 3)).expand(rows, columns, 3)
    )
    assert_same(lambda x, i: torch.take(x, i), x, torch.randint(-x.numel(), x.numel(), (3, 4)))
    assert_same(lambda x, i: torch.take_along_dim(x, i, 1), x, torch.randint(0, columns, (rows, 2, depth)))


def test_sizes_zero_and_no_dimensions() -> None:
    x, none = torch.randn(4, 3), torch.empty(0, dtype=torch.int64)
    assert_same(lambda x, i: x[i], x, none)
    assert_same(lambda x, i: x.index_select(1, i), x, none)
    assert_same(lambda x, i: torch.take(x, i), x, none)
    assert_same(lambda x, i: x[i], torch.randn(4, 0), torch.tensor([1, 2]))
    assert_same(lambda x, i: x[i], x, torch.tensor(-1))
    assert_same(lambda x, i: torch.gather(x, 0, i), torch.randn(()), torch.tensor(0))
    assert_same(lambda x, i: torch.gather(x, 0, i), torch.randn(()), torch.tensor([0]))
    assert_same(lambda x, i: x.index_select(0, i), torch.randn(()), torch.tensor([0]))
    assert_same(lambda x, i: x.index_select(0, i), x, torch.tensor(2))
    assert_same(lambda x, i: torch.take(x, i), torch.randn(()), torch.tensor([0, -1]))
    assert_same(lambda x, m: x[m], torch.randn(()), torch.tensor(True))
    assert_same(lambda x, i: torch.nn.functional.embedding(i, x), x, none)


def test_into_outputs() -> None:
    x, i = torch.randn(6, 5), torch.tensor([0, 5, 2])
    for function in (
        lambda x, i, out: torch.index_select(x, 0, i, out=out),
        lambda x, i, out: torch.take(x, i, out=out),
        lambda x, i, out: torch.gather(x, 0, i[:, None].expand(3, 5), out=out),
        lambda x, i, out: torch.ops.aten.index.Tensor_out(x, [i], out=out),
    ):
        out = torch.empty(0, device="sim")
        assert function(x.to("sim"), i.to("sim"), out) is out
        assert torch.equal(out.cpu(), function(x, i, torch.empty(0)))
    wide = torch.zeros(6, 6, device="sim")
    torch.index_select(x.to("sim"), 0, i.to("sim"), out=wide[::2, 1:])
    assert torch.equal(wide[::2, 1:].cpu(), x[i])
    assert wide[1::2].cpu().count_nonzero() == 0


def test_many_groups() -> None:
    x = torch.randn(1000, 301)
    i = torch.randint(0, 1000, (5000,))
    assert_same(lambda x, i: x[i], x, i)
    assert_same(lambda x, i: x.t()[:, i], x, i)
    assert_same(lambda x, i: x[i, i % 301], x, i)
    assert_same(lambda x, i: torch.gather(x, 0, i), x, torch.randint(0, 1000, (900, 301)))
    assert_same(lambda x, i: torch.nn.functional.embedding(i, x), x, i)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("aten::gather", lambda x, i: torch.gather(x, 0, i[:, None])),
        ("aten::index_select", lambda x, i: x.index_select(0, i)),
        ("aten::index.Tensor", lambda x, i: x[i]),
        ("aten::index.Tensor", lambda x, i: x[i % 3, i]),
        ("aten::take", lambda x, i: torch.take(x, i)),
        ("aten::embedding", lambda x, i: torch.nn.functional.embedding(i, x)),
        ("aten::scatter_add", lambda x, i: x.scatter_add(0, i[:, None], torch.ones_like(x[:2]))),
        ("aten::index_add", lambda x, i: x.index_add(0, i, torch.ones_like(x[:2]))),
        ("aten::_index_put_impl_", lambda x, i: x.index_put((i,), torch.ones_like(x[0]))),
        ("aten::put_", lambda x, i: x.put(i, torch.ones_like(x[0, :2]))),
    ],
)
def test_index_out_of_range_is_reported_at_synchronization(name: str, call: Callable[..., torch.Tensor]) -> None:
    x = torch.randn(3, 3, device="sim")
    before = x.cpu()
    bad = torch.tensor([1, 100_000_000], device="sim")
    with pytest.raises(IndexError, match=rf"{name}: index 100000000 is out of bounds for dimension with size \d"):
        call(x, bad).cpu()
    # Reported once; the device stays usable, and nothing else was written.
    assert torch.equal(x.cpu(), before)
    assert torch.equal(x[torch.tensor([1, 0], device="sim")].cpu(), before[[1, 0]])
    call(x, bad)
    with pytest.raises(RuntimeError, match=f"{name}: index 100000000"):
        torch.sim.synchronize()
    torch.sim.synchronize()


def test_an_index_out_of_range_reads_zero() -> None:
    x = torch.ones(3, 2, device="sim")
    out = torch.full((2, 2), 7.0, device="sim")
    torch.index_select(x, 0, torch.tensor([-1, 1], device="sim"), out=out)
    with pytest.raises(IndexError, match="index -1 is out of bounds"):
        out.cpu()
    assert out.cpu().tolist() == [[0, 0], [1, 1]]


def test_errors_are_torchs() -> None:
    x = torch.randn(3, 4, device="sim")
    with pytest.raises(IndexError, match="too many indices"):
        torch.ops.aten.index.Tensor(x, [torch.tensor([0], device="sim")] * 3)
    with pytest.raises(IndexError, match="could not be broadcast together"):
        x[torch.tensor([0, 1], device="sim"), torch.tensor([0, 1, 2], device="sim")]
    with pytest.raises(IndexError, match="The shape of the mask"):
        x[torch.tensor([True, False], device="sim")]
    with pytest.raises(IndexError, match="must be long"):
        torch.ops.aten.index.Tensor(x, [torch.tensor([0.5], device="sim")])
    with pytest.raises(IndexError, match="at least one index"):
        torch.ops.aten.index.Tensor(x, [])
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or .* \(cpu\)"):
        torch.ones(3)[torch.tensor([0], device="sim")]
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or .* \(sim:0\)"):
        x[:, torch.tensor([0], device="sim:1")]


@pytest.mark.parametrize("accumulate", [False, True])
def test_errors_of_values_are_torchs(accumulate: bool) -> None:
    indices = ((torch.tensor([0, 1]),), (torch.tensor([True, False, True]),), (torch.tensor(True),))
    for index in indices:
        messages = []
        for device in ("cpu", "sim"):
            x, values = torch.ones(3, 4, device=device), torch.ones(5, 1, 3, 4, device=device)
            with pytest.raises(Exception, match="shape mismatch: value tensor") as caught:
                x.index_put_(tuple(i.to(device) for i in index), values, accumulate)
            messages.append((caught.type, str(caught.value)))
        assert messages[0] == messages[1]


INDICES = {
    "numbers": lambda: (torch.tensor([2, 0, 2]),),
    "negative": lambda: (torch.tensor([-1, 1]), torch.tensor([[0], [3]])),
    "second dimension": lambda: (slice(None), torch.tensor([3, 1])),
    "mask": lambda: (torch.tensor([True, False, True]),),
    "mask of all": lambda: (torch.arange(12).view(3, 4) % 5 > 1,),
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_on_the_cpu(name: str) -> None:
    """As on every device, they may be: the indexed tensor stays on the device."""
    x, index = torch.randn(3, 4), INDICES[name]()
    hardpoint.reset_counters()
    y = x.sim()
    assert torch.equal(y[index].cpu(), x[index])
    values = torch.randn_like(x[index])
    for write in (values, torch.tensor(5.0)):
        x[index], y[index] = write, write.sim()
        assert torch.equal(y.cpu(), x)
    mixed = (index[0].sim() if isinstance(index[0], torch.Tensor) else index[0], *index[1:])
    assert torch.equal(y[mixed].cpu(), x[index])
    x.index_put_((torch.tensor([1, 0]), torch.tensor([1, 1])), torch.tensor(2.0), accumulate=True)
    y.index_put_((torch.tensor([1, 0]), torch.tensor([1, 1])), torch.tensor(2.0, device="sim"), accumulate=True)
    assert torch.equal(y.cpu(), x)
    assert not on_cpu(*INDEX)
