"""Copies of every kind, view operators, and storage operators."""

from __future__ import annotations

import copy
import functools
import time

import pytest
import torch

import hardpoint

exactly = functools.partial(torch.testing.assert_close, rtol=0, atol=0, equal_nan=True, check_device=False)

DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
PAIRS = [(a, b) for i, a in enumerate(DTYPES) for j, b in enumerate(DTYPES) if (i + 2 * j) % 3 == 0 or a == b]

#: Views of a (6, 4, 8) tensor.
LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.transpose(0, 2),
    "permuted": lambda t: t.permute(1, 2, 0),
    "step": lambda t: t[::2, :, 1::3],
    "column": lambda t: t[:, :, 3],
    "offset": lambda t: t[2:, 1:],
    "expanded": lambda t: t[:1].expand(5, 4, 8),
    "channels_last": lambda t: t.unsqueeze(0).to(memory_format=torch.channels_last),
    "scalar": lambda t: t[1, 2, 3],
    "flipped": lambda t: t.flip(0),
    "empty": lambda t: t[:0],
    "one": lambda t: t[:1, :1, :1],
    "diagonal": lambda t: t.diagonal(0, 1, 2),
    "overlapping": lambda t: t.as_strided((5, 3), (1, 1)),
}
#: Layouts that can be written to.
WRITABLE = [name for name in LAYOUTS if name not in ("expanded", "overlapping", "flipped", "channels_last")]


def values(dtype: torch.dtype, shape: tuple[int, ...] = (6, 4, 8)) -> torch.Tensor:
    count = int(torch.tensor(shape).prod())
    base = (torch.arange(count) * 7) % 100
    if dtype.is_complex:
        return torch.complex(base.double(), -base.double() / 2).to(dtype).reshape(shape)
    if dtype == torch.bool:
        return (base % 2 == 0).reshape(shape)
    return base.to(dtype).reshape(shape)


# ---- Layouts


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.complex64, torch.float64], ids=str)
def test_round_trip_keeps_values_and_strides(layout, dtype):
    x = LAYOUTS[layout](values(dtype))
    there = x.to("sim")
    exactly(there, x)
    assert there.stride() == x.to("cpu", copy=True).stride()
    back = there.cpu()
    exactly(back, x)
    assert back.stride() == there.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("target", ["cpu", "sim:0", "sim:1"])
def test_copy_of_device_views(layout, target):
    x = values(torch.float32)
    source = LAYOUTS[layout](x.to("sim"))
    exactly(source.to(target, copy=True), LAYOUTS[layout](x))
    exactly(source.contiguous(), LAYOUTS[layout](x).contiguous())
    exactly(source.clone(), LAYOUTS[layout](x))


@pytest.mark.parametrize("layout", WRITABLE)
@pytest.mark.parametrize("origin", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("source_layout", ["dense", "strided", "one value"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int16], ids=str)
def test_copy_into_a_view_leaves_its_neighbors(layout, origin, source_layout, dtype):
    expected, base = values(torch.float32), values(torch.float32).to("sim")
    view = LAYOUTS[layout](expected)
    source = -values(dtype, tuple(view.shape)) - 1 if view.numel() else torch.empty(view.shape, dtype=dtype)
    if source_layout == "strided":
        source = torch.stack([source, source], dim=-1)[..., 0]
    elif source_layout == "one value":
        source = torch.tensor(-5, dtype=dtype).expand(view.shape)
    view.copy_(source)
    LAYOUTS[layout](base).copy_(source.to(origin))
    exactly(base, expected)


@pytest.mark.parametrize("shape", [(8,), (1, 8), (4, 1), (1,), ()])
@pytest.mark.parametrize("origin", ["cpu", "sim:0", "sim:1"])
def test_copy_broadcasts(shape, origin):
    expected, target = torch.zeros(6, 4, 8), torch.zeros(6, 4, 8, device="sim")
    source = values(torch.float32, shape) + 1
    exactly(target.copy_(source.to(origin)), expected.copy_(source))


@pytest.mark.parametrize("origin", ["cpu", "sim", "sim:1"])
@pytest.mark.parametrize(("target", "source"), [((3,), (5,)), ((3,), (2, 3)), ((), (1, 2)), ((0, 3), (2, 3))], ids=str)
def test_copy_that_does_not_broadcast(target, source, origin):
    messages = []
    for x, y in ((torch.ones(target), torch.ones(source)), (torch.ones(target).sim(), torch.ones(source).to(origin))):
        with pytest.raises(RuntimeError) as caught:
            x.copy_(y)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("size", [1, 1000, 100_003])
def test_sizes(size):
    x = torch.arange(size, dtype=torch.int32)
    exactly(x.sim().sim(1).sim(0).cpu(), x)


@pytest.mark.parametrize("non_blocking", [False, True])
@pytest.mark.parametrize("path", [("cpu", "sim:0"), ("sim:0", "cpu"), ("sim:0", "sim:1"), ("sim:1", "sim:0")])
def test_every_direction(path, non_blocking):
    x = torch.arange(1000.0).reshape(10, 100)
    source = x.to(path[0])
    target = torch.zeros(10, 100, device=path[1])
    assert target.copy_(source, non_blocking=non_blocking) is target
    torch.sim.synchronize(0)
    torch.sim.synchronize(1)
    exactly(target, x)


# ---- Dtypes


@pytest.mark.parametrize(("source", "target"), PAIRS, ids=lambda d: str(d).removeprefix("torch."))
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_conversion(source, target):
    x = values(source)
    expected = x.to(target)
    exactly(x.to("sim", target), expected)  # to the device
    exactly(x.to("sim").to(target), expected)  # on the device
    exactly(x.to("sim").to("cpu", target), expected)  # to the host
    exactly(x.to("sim").to("sim:1", target), expected)  # between devices
    exactly(x.to("sim").transpose(0, 2).to(target), expected.transpose(0, 2))
    exactly(torch.zeros(6, 4, 8, dtype=target, device="sim").copy_(x), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float32, torch.bool], ids=str)
def test_conversion_of_special_values(dtype, target):
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-7, 65504, 70000, 1e38, 0.1, -2.5])
    x = special.to(dtype)
    converted = x.sim().to(target).cpu()
    exactly(converted, x.to(target))
    exactly(converted[1:].signbit(), x.to(target)[1:].signbit())  # the sign of NaN is unspecified


@pytest.mark.parametrize("target", [torch.int8, torch.int32, torch.int64, torch.uint8], ids=str)
def test_conversion_truncates(target):
    x = torch.tensor([0.9, 1.5, 2.5, 100.99, 0.0])
    exactly(x.sim().to(target), x.to(target))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_item_and_tolist(dtype):
    x = values(dtype, (3,))
    assert x.sim()[1].item() == x[1].item()
    assert x.sim().tolist() == x.tolist()


# ---- Lazy conjugation and negation


def _complex() -> torch.Tensor:
    return torch.complex(torch.arange(12.0), torch.arange(12.0) + 0.5).reshape(3, 4)


LAZY = {
    "conj": lambda t: t.conj(),
    "conj transposed": lambda t: t.mH,
    "conj slice": lambda t: t.conj()[:, ::2],
    "negative": lambda t: t.conj().imag,
    "conj twice": lambda t: t.conj().conj(),
    "negated view": lambda t: torch._neg_view(t),
    "both": lambda t: torch._neg_view(t.conj()),
}


@pytest.mark.parametrize("view", LAZY)
@pytest.mark.parametrize("target", ["cpu", "sim:0", "sim:1"])
def test_lazy_bits_out(view, target):
    x = _complex()
    lazy, expected = LAZY[view](x.sim()), LAZY[view](x)
    exactly(lazy.to(target, copy=True), expected)
    exactly(lazy.clone(), expected)
    exactly(lazy.resolve_conj().resolve_neg(), expected.resolve_conj().resolve_neg())
    assert lazy.tolist() == expected.tolist()


@pytest.mark.parametrize("view", LAZY)
@pytest.mark.parametrize("source_view", ["plain", "conj", "negated view"])
@pytest.mark.parametrize("origin", ["cpu", "sim:0", "sim:1"])
def test_lazy_bits_in(view, source_view, origin):
    expected, base = _complex(), _complex().sim()
    target = LAZY[view](expected)
    given = torch.full(target.shape, 3 - 4j)
    given = given.real.clone() if not target.is_complex() else given
    lazy = LAZY.get(source_view, lambda t: t) if target.is_complex() or source_view == "negated view" else (lambda t: t)
    target.copy_(lazy(given))
    LAZY[view](base).copy_(lazy(given.to(origin)))
    exactly(base, expected)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32])
def test_conjugate_in_place(dtype):
    x = torch.randn(4, 6, dtype=dtype)
    y = x.to("sim")
    assert y.conj_physical_() is y
    assert torch.equal(y.cpu(), x.conj_physical())
    y = x.to("sim")
    y.t()[1:4:2].conj_physical_()
    x.t()[1:4:2].conj_physical_()
    assert torch.equal(y.cpu(), x)


def test_view_as_real_and_complex():
    x = _complex().sim()
    real = torch.view_as_real(x)
    real[..., 1] = 9
    exactly(x, torch.complex(torch.arange(12.0), torch.full((12,), 9.0)).reshape(3, 4))
    pair = torch.arange(6.0, device="sim").reshape(3, 2)
    torch.view_as_complex(pair)[1] = 7 + 8j
    assert pair.tolist() == [[0, 1], [7, 8], [4, 5]]


# ---- Overlap


def test_overlapping_copy_is_refused():
    for device in ("cpu", "sim"):
        x = torch.arange(6.0, device=device)
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            x[1:].copy_(x[:-1])


@pytest.mark.parametrize("origin", ["cpu", "sim:0", "sim:1"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_copy_into_an_expanded_tensor_is_refused(origin, dtype):
    target = torch.zeros(1, device="sim")
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        target.expand(3).copy_(torch.arange(3, dtype=dtype).to(origin))
    assert target.item() == 0


def test_copy_of_a_tensor_to_itself():
    x = torch.arange(3.0, device="sim")
    assert x.copy_(x).tolist() == [0, 1, 2]
    assert x.copy_(x.view(3)).tolist() == [0, 1, 2]


# ---- Memory formats


@pytest.mark.parametrize(
    "memory_format", [torch.contiguous_format, torch.channels_last, torch.preserve_format], ids=str
)
@pytest.mark.parametrize("start", [torch.contiguous_format, torch.channels_last], ids=str)
def test_clone_with_memory_format(memory_format, start):
    x = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=start)
    exactly(x.sim().clone(memory_format=memory_format), x.clone(memory_format=memory_format), check_stride=True)
    exactly(torch.empty_like(x.sim(), memory_format=memory_format).copy_(x), x)
    if memory_format is not torch.preserve_format:
        made = torch.empty((2, 3, 4, 5), device="sim", memory_format=memory_format)
        assert made.is_contiguous(memory_format=memory_format)
        assert x.sim().contiguous(memory_format=memory_format).is_contiguous(memory_format=memory_format)


def test_channels_last_3d():
    x = torch.arange(240.0).reshape(2, 3, 4, 5, 2)
    exactly(
        x.sim().to(memory_format=torch.channels_last_3d), x.to(memory_format=torch.channels_last_3d), check_stride=True
    )


@pytest.mark.parametrize("start", [torch.contiguous_format, torch.channels_last], ids=str)
def test_module_to_memory_format(start):
    model = torch.nn.Conv2d(2, 3, 3).to(memory_format=start)
    expected = model.weight.detach().clone()
    exactly(model.sim().weight.detach(), expected, check_stride=True)


# ---- to


@pytest.mark.parametrize(
    ("call", "device", "dtype", "same"),
    [
        (lambda t: t.to("sim"), "sim:0", torch.float32, True),
        (lambda t: t.to("sim:0"), "sim:0", torch.float32, True),
        (lambda t: t.to("sim", copy=True), "sim:0", torch.float32, False),
        (lambda t: t.to(torch.float32), "sim:0", torch.float32, True),
        (lambda t: t.to(torch.float16), "sim:0", torch.float16, False),
        (lambda t: t.to("sim:1", torch.int32), "sim:1", torch.int32, False),
        (lambda t: t.to(torch.ones(1, dtype=torch.int8)), "cpu", torch.int8, False),
        (lambda t: t.to(torch.ones(1, dtype=torch.int8, device="sim:1")), "sim:1", torch.int8, False),
        (lambda t: t.cpu(), "cpu", torch.float32, False),
        (lambda t: t.double(), "sim:0", torch.float64, False),
        (lambda t: t.type(torch.int64), "sim:0", torch.int64, False),
    ],
)
def test_to(call, device, dtype, same):
    x = torch.arange(4.0, device="sim")
    made = call(x)
    assert made.device == torch.device(device)
    assert made.dtype == dtype
    assert (made is x) == same
    assert made.tolist() == [0, 1, 2, 3]


def test_to_meta():
    moved = torch.ones(2, 3, device="sim").to("meta")
    assert moved.shape == (2, 3)
    assert moved.is_meta


# ---- Storage and view primitives


def test_set():
    source = torch.arange(12.0, device="sim")
    x = torch.empty(0, device="sim").set_(source)
    assert x.data_ptr() == source.data_ptr()
    x = torch.empty(0, device="sim").set_(source.untyped_storage(), 2, (2, 3), (4, 1))
    assert x.tolist() == [[2, 3, 4], [6, 7, 8]]
    x[0, 0] = 50
    assert source[2].item() == 50
    x = torch.empty(0, device="sim").set_(source.untyped_storage())
    assert x.shape == (12,)
    assert x.is_set_to(source)
    assert not x.is_set_to(source[1:])
    x.set_()
    assert x.numel() == 0
    assert x.device == torch.device("sim:0")


def test_set_grows_the_storage():
    source = torch.arange(3.0, device="sim")
    x = torch.empty(0, device="sim").set_(source.untyped_storage(), 0, (100,), (1,))
    assert x.untyped_storage().nbytes() == source.untyped_storage().nbytes() == 400
    assert x[:3].tolist() == source.tolist() == [0, 1, 2]


def test_set_to_another_devices_storage():
    with pytest.raises(RuntimeError, match="device"):
        torch.empty(0, device="sim").set_(torch.ones(2).untyped_storage())


def test_resize_keeps_contents():
    x = torch.arange(4.0, device="sim")
    x.resize_(2, 3)
    assert x.flatten()[:4].tolist() == [0, 1, 2, 3]
    x.resize_(2)
    assert x.tolist() == [0, 1]
    x.resize_(100_000)
    assert x[:4].tolist() == [0, 1, 2, 3]
    x.resize_as_(torch.empty(2, 2, device="sim"))
    assert x.tolist() == [[0, 1], [2, 3]]


def test_resize_storage():
    x = torch.arange(4.0, device="sim")
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    x.untyped_storage().resize_(16)
    assert x.fill_(2).tolist() == [2, 2, 2, 2]
    x.untyped_storage().resize_(32)
    assert x.tolist() == [2, 2, 2, 2]


def test_resize_on_another_device():
    x = torch.arange(3.0, device="sim:1").resize_(5)
    assert x.device == torch.device("sim:1")
    assert x[:3].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(4, 6),
        lambda t: t.view(-1),
        lambda t: t.reshape(3, 8),
        lambda t: t.t().reshape(24),
        lambda t: t.as_strided((2, 2), (6, 1), 3),
        lambda t: t.unfold(1, 2, 2),
        lambda t: t.unfold(0, 3, 1),
        lambda t: t.view(torch.int32),
        lambda t: t.view(torch.uint8),
        lambda t: t.view(torch.float64),
        lambda t: t.diagonal(),
        lambda t: t.unsqueeze(1).squeeze(),
        lambda t: t.movedim(0, 1),
        lambda t: t.expand(2, 4, 6),
        lambda t: t[None, 1:3, ..., 2],
        lambda t: t.split(2)[1],
        lambda t: t.chunk(3, 1)[2],
        lambda t: t.unbind(1)[3],
        lambda t: t.narrow(1, 2, 3),
        lambda t: t.select(0, 2),
        lambda t: t.T,
        lambda t: t.detach(),
        lambda t: t.view_as(torch.empty(2, 12)),
        lambda t: t.unflatten(1, (2, 3)),
        lambda t: t.swapaxes(0, 1),
    ],
)
def test_views(view):
    x = torch.arange(24.0).reshape(4, 6)
    made = view(x.sim())
    exactly(made, view(x), check_stride=True)
    assert made.device == torch.device("sim:0")


@pytest.mark.parametrize(
    "view", [lambda t: t.view(3, 2), lambda t: t[1:], lambda t: t.view(torch.int32), lambda t: t.t()]
)
def test_views_share_memory(view):
    x = torch.arange(6.0, device="sim").reshape(2, 3)
    made = view(x)
    assert made.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    made.zero_()
    expected = torch.arange(6.0).reshape(2, 3)
    view(expected).zero_()
    exactly(x, expected)


def test_impossible_views():
    x = torch.arange(6.0, device="sim").reshape(2, 3)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        x.t().view(6)
    with pytest.raises(RuntimeError, match="must be divisible"):
        x.view(torch.float64)
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((4,), (3,))


# ---- Deep copies


def test_deepcopy_keeps_sharing():
    x = torch.arange(4.0, device="sim:1")
    pair = copy.deepcopy({"whole": x, "part": x[1:3]})
    assert pair["whole"].device == torch.device("sim:1")
    assert pair["whole"].data_ptr() != x.data_ptr()
    pair["part"].zero_()
    assert pair["whole"].tolist() == [0, 0, 0, 3]
    assert x.tolist() == [0, 1, 2, 3]


def test_deepcopy_of_a_parameter():
    parameter = torch.nn.Parameter(torch.arange(3.0, device="sim"))
    copied = copy.deepcopy(parameter)
    assert isinstance(copied, torch.nn.Parameter)
    assert copied.requires_grad
    assert copied.tolist() == [0, 1, 2]
    assert copied.data_ptr() != parameter.data_ptr()
    assert copy.copy(parameter).data_ptr() == parameter.data_ptr()


def test_deepcopy_of_a_gradient():
    leaf = torch.arange(3.0, device="sim", requires_grad=True)
    leaf.grad = torch.ones(3, device="sim")
    copied = copy.deepcopy(leaf)
    assert copied.grad.tolist() == [1, 1, 1]
    assert copied.grad.data_ptr() != leaf.grad.data_ptr()


def test_declined_calls_are_cheap():
    """sim leaves transposed copies to the portable kernel. Creating an error object for each took 60 times as long."""
    to, source = torch.empty(64, 64, device="sim"), torch.randn(64, 64, device="sim").t()

    def seconds():
        rounds = []
        for _ in range(7):
            start = time.process_time()
            for _ in range(200):
                to.copy_(source)
            rounds.append(time.process_time() - start)
            torch.accelerator.synchronize()
        return min(rounds)

    hardpoint.reset_counters()
    declined = seconds()
    assert hardpoint.counters()["aten::copy_"].keys() == {"portable"}
    with hardpoint.fallback("copy_=portable"):
        asked = seconds()
    assert declined < 10 * asked


def test_an_empty_tensor_has_no_value():
    with pytest.raises(RuntimeError, match="Empty tensor not supported"):
        torch.ops.aten._local_scalar_dense(torch.empty(0, device="sim"))
