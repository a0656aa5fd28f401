"""The CPU tier: any operator runs on the CPU with the same semantics as on a device.

Operators of the library ``hptest`` only have a CPU kernel, so they test this tier on any device.
"""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
from torch.testing import make_tensor

import hardpoint
import hardpoint.devices.sim

close = functools.partial(torch.testing.assert_close, check_device=False, equal_nan=True)
exactly = functools.partial(close, rtol=0, atol=0)

library = torch.library.Library("hptest", "DEF")  # must outlive the tests


def define(schema: str, function) -> None:
    library.define(schema)
    library.impl(schema.split("(")[0], function, "CPU")


def _pair_out(x, *, small, large):
    small.resize_(x.shape).copy_(x - 1)
    large.resize_(x.shape).copy_(x + 1)
    return small, large


def _scale_all(xs, factor):
    for x in xs:
        x.mul_(factor)


def _swap(x, y):
    old_x, old_y = x.clone(), y.clone()
    x.copy_(old_y)
    y.copy_(old_x)


def _fill_out(value, *, out):
    return out.fill_(value)


define("triple(Tensor x) -> Tensor", lambda x: x * 3)
define("triple_(Tensor(a!) x) -> Tensor(a!)", lambda x: x.mul_(3))
define("pair.out(Tensor x, *, Tensor(a!) small, Tensor(b!) large) -> (Tensor(a!), Tensor(b!))", _pair_out)
define("fill.out(float value, *, Tensor(a!) out) -> Tensor(a!)", _fill_out)
define("scale_all(Tensor(a!)[] xs, float factor) -> ()", _scale_all)
define("swap(Tensor(a!) x, Tensor(b!) y) -> ()", _swap)
define("maybe(Tensor x, Tensor? y) -> Tensor", lambda x, y: x if y is None else x + y)
define("gather(Tensor?[] xs) -> Tensor", lambda xs: torch.stack([torch.zeros(2) if x is None else x for x in xs]))
define("split(Tensor x) -> Tensor[]", lambda x: [x + i for i in range(3)])
define("numbers(Tensor x) -> (int, float, Tensor)", lambda x: (x.numel(), float(x.sum()), x.neg()))
define("same(Tensor x) -> Tensor", lambda x: x)
define("turned(Tensor x) -> Tensor", lambda x: x.clone().t())
define("expanded(Tensor x) -> Tensor", lambda x: x.sum().expand(4))
define("failing(Tensor x) -> Tensor", lambda x: (_ for _ in ()).throw(ValueError("wrong input 17")))
library.define("nowhere(Tensor x) -> Tensor")
ops = torch.ops.hptest


# ---- Arguments and results


def test_result_is_on_the_arguments_device():
    for device in ("sim:0", "sim:1"):
        x = torch.arange(4.0, device=device)
        made = ops.triple(x)
        assert made.device == torch.device(device)
        assert made.tolist() == [0, 3, 6, 9]
        assert x.tolist() == [0, 1, 2, 3]


VIEWS = {
    "whole": lambda t: t,
    "row": lambda t: t[1],
    "column": lambda t: t[:, 1],
    "step": lambda t: t[::2, ::2],
    "transposed": lambda t: t.t(),
    "inner": lambda t: t[1:3, 1:3],
    "far apart": lambda t: t.view(-1)[::9],
    "scalar": lambda t: t[2, 2],
    "empty": lambda t: t[:0],
    "diagonal": lambda t: t.diagonal(),
}


@pytest.mark.parametrize("view", VIEWS)
def test_in_place_on_a_view_changes_the_base(view):
    expected, base = torch.arange(20.0).reshape(4, 5), torch.arange(20.0, device="sim").reshape(4, 5)
    VIEWS[view](expected).mul_(3)
    given = VIEWS[view](base)
    assert ops.triple_(given) is given
    exactly(base, expected)


@pytest.mark.parametrize("view", VIEWS)
def test_reading_a_view(view):
    base = torch.arange(20.0).reshape(4, 5)
    exactly(ops.triple(VIEWS[view](base.sim())), VIEWS[view](base) * 3)


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.t(),
        lambda t: t[::2],
        lambda t: t.t()[:, ::2],
        lambda t: t.t()[:, ::8],
        lambda t: t[:, 1],
    ],
)
@pytest.mark.parametrize("call", [torch.erfinv, ops.triple], ids=["erfinv", "triple"])
def test_strides_of_results(view, call):
    """The layout of a result follows the argument's, even if the CPU got a copy with other strides."""
    x = torch.rand(64, 64)
    close(call(view(x.sim())), call(view(x)), check_stride=True)


def test_results_keep_their_strides():
    x = torch.arange(6.0).reshape(2, 3)
    exactly(ops.turned(x.sim()), ops.turned(x), check_stride=True)
    exactly(ops.expanded(x.sim()), ops.expanded(x))


def test_an_argument_as_the_result():
    x = torch.ones(2, device="sim")
    assert ops.same(x).data_ptr() == x.data_ptr()


def test_results_that_are_no_tensors():
    count, total, negative = ops.numbers(torch.arange(4.0, device="sim"))
    assert (count, total) == (4, 6.0)
    assert negative.tolist() == [0, -1, -2, -3]
    assert negative.is_sim


def test_lists_and_optional_tensors():
    x, y = torch.ones(2, device="sim"), torch.full((2,), 4.0, device="sim")
    assert ops.maybe(x, None).tolist() == [1, 1]
    assert ops.maybe(x, y).tolist() == [5, 5]
    assert ops.gather([x, None, y]).tolist() == [[1, 1], [0, 0], [4, 4]]
    assert [t.tolist() for t in ops.split(x)] == [[1, 1], [2, 2], [3, 3]]
    assert all(t.is_sim for t in ops.split(x))


def test_written_lists():
    base = torch.ones(6, device="sim")
    other = torch.ones(2, device="sim")
    ops.scale_all([base[:2], other, base[4:]], 5.0)
    assert base.tolist() == [5, 5, 1, 1, 5, 5]
    assert other.tolist() == [5, 5]


def test_empty_arguments():
    assert ops.triple(torch.empty(0, 3, device="sim")).shape == (0, 3)
    assert ops.triple_(torch.empty(0, device="sim")).numel() == 0


def test_conjugate_and_negative_arguments():
    x = torch.tensor([1 + 2j, 3 - 4j])
    exactly(ops.triple(x.sim().conj()), x.conj() * 3)
    exactly(ops.triple(x.sim().conj().imag), x.conj().imag * 3)
    base = x.sim()
    ops.triple_(base.conj())
    exactly(base, x * 3)


# ---- out=


@pytest.mark.parametrize("start", [0, 2, 7, 5])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_out_is_resized(start):
    x = torch.arange(5.0, device="sim")
    small, large = torch.empty(start, device="sim"), torch.empty(0, device="sim")
    made = torch.ops.hptest.pair.out(x, small=small, large=large)
    assert made[0] is small
    assert made[1] is large
    assert small.tolist() == [-1, 0, 1, 2, 3]
    assert large.tolist() == [1, 2, 3, 4, 5]


def test_aten_out_is_resized():
    x = torch.rand(3, 4)
    out = torch.empty(0, device="sim")
    assert torch.erfinv(x.sim(), out=out) is out
    close(out, torch.erfinv(x))
    values, indices = torch.empty(0, device="sim"), torch.empty(0, dtype=torch.int64, device="sim")
    torch.cummax(x.sim(), 1, out=(values, indices))
    exactly(values, torch.cummax(x, 1).values)
    exactly(indices, torch.cummax(x, 1).indices)


def test_out_is_a_view():
    expected, base = torch.zeros(4, 6), torch.zeros(4, 6, device="sim")
    x = torch.rand(4, 3)
    torch.erfinv(x, out=expected[:, ::2])
    torch.erfinv(x.sim(), out=base[:, ::2])
    close(base, expected)


def test_out_of_another_dtype_and_device():
    x = torch.rand(3, device="sim")
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.erfinv(x, out=torch.empty(3, dtype=torch.int64, device="sim"))
    with pytest.raises(RuntimeError, match="same device"):
        torch.erfinv(x, out=torch.empty(3, device="sim:1"))
    with pytest.raises(RuntimeError, match="device"):
        torch.erfinv(x, out=torch.empty(3))


# ---- Copies


def copies_of(operator: str, call) -> int:
    """Number of copies between host and device in a call, counted by making later and later ones fail."""
    for number in range(1, 20):
        with hardpoint.devices.sim.fault(f"copy:after={number}:operator={operator}"):
            try:
                call()
                torch.sim.synchronize()
            except RuntimeError as error:
                assert "injected copy failure" in str(error)  # noqa: PT017
                continue
        return number - 1
    raise AssertionError("too many copies")


@pytest.mark.parametrize("size", [10, 100_000])
def test_output_arguments_are_not_read(size):
    out = torch.zeros(size, device="sim")
    assert copies_of("hptest::fill.out", lambda: torch.ops.hptest.fill.out(2.0, out=out)) == 1
    assert out[-1].item() == 2.0
    x = torch.ones(size, device="sim")
    small, large = torch.empty(size, device="sim"), torch.empty(size, device="sim")
    assert copies_of("hptest::pair.out", lambda: torch.ops.hptest.pair.out(x, small=small, large=large)) == 3
    assert (small[0].item(), large[0].item()) == (0, 2)


def test_copies_of_other_forms():
    x = torch.ones(10, device="sim")
    assert copies_of("hptest::triple", lambda: ops.triple(x)) == 2
    assert copies_of("hptest::triple_", lambda: ops.triple_(x)) == 2
    assert copies_of("hptest::same", lambda: ops.same(x)) == 1


# ---- Aliasing


def test_arguments_that_share_memory():
    for device in ("cpu", "sim"):
        base = torch.arange(6.0, device=device)
        ops.swap(base[:3], base[3:])
        assert base.tolist() == [3, 4, 5, 0, 1, 2]
        ops.swap(base[:4], base[2:])  # overlapping: the last write wins
        assert base.tolist() == [5, 0, 3, 4, 5, 0]


def test_aliasing_inputs_of_aten():
    for device in ("cpu", "sim"):
        x, y = torch.arange(4.0, device=device), torch.ones(4, device=device)
        x.add_(x)
        assert x.tolist() == [0, 2, 4, 6]
        torch.sub(x, y, out=x)
        assert x.tolist() == [-1, 1, 3, 5]
        torch.sub(y, x, out=x)
        assert x.tolist() == [2, 0, -2, -4]
        torch.hypot(x, x, out=y)
        assert y[1].item() == 0
        x.copysign_(x.neg())
        assert x.tolist() == [-2, -0.0, 2, 4]
        base = torch.arange(8.0, device=device)
        torch.hypot(base[:4], base[:4], out=base[4:])
        assert base[:4].tolist() == [0, 1, 2, 3]


def test_partly_overlapping_output_is_refused_as_on_the_cpu():
    for device in ("cpu", "sim"):
        x = torch.ones(5, device=device)
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            torch.erfinv(x[:-1], out=x[1:])
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            x[:1].expand(3).erfinv_()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_errors_name_the_dtype_of_the_argument(dtype):
    messages = []
    for device in ("cpu", "sim"):
        with pytest.raises(NotImplementedError) as caught:
            torch.bincount(torch.ones(3, dtype=dtype, device=device))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_one_tensor_twice():
    x = torch.arange(3.0, device="sim")
    ops.swap(x, x)
    assert x.tolist() == [0, 1, 2]
    ops.scale_all([x, x], 2.0)
    assert x.tolist() == [0, 4, 8]


def test_shared_storage_of_different_dtypes():
    for device in ("cpu", "sim"):
        x = torch.ones(2, device=device)
        bits = x.view(torch.int32)
        torch.bitwise_xor(bits, bits, out=bits)
        assert x.tolist() == [0, 0]


# ---- ATen operators of every kind against the CPU

CALLS = {
    "index": lambda d: torch.arange(12.0, device=d).reshape(3, 4)[
        torch.tensor([0, 2], device=d), torch.tensor([1, 3], device=d)
    ],
    "index with CPU indices": lambda d: torch.arange(12.0, device=d).reshape(3, 4)[torch.tensor([0, 2])],
    "index with None": lambda d: torch.arange(12.0, device=d).reshape(3, 4)[:, torch.tensor([1, 0], device=d)],
    "index with mask": lambda d: torch.arange(5.0, device=d)[torch.arange(5, device=d) > 2],
    "index_put": lambda d: torch.zeros(4, device=d).index_put_(
        (torch.tensor([1, 1, 3], device=d),), torch.ones(3, device=d), True
    ),
    "index_put scalar": lambda d: torch.zeros(4, device=d).index_put_(
        (torch.tensor([1, 3], device=d),), torch.tensor(5.0)
    ),
    "masked assignment": lambda d: (lambda t: (t.__setitem__(t > 1, -1.0), t)[1])(torch.arange(4.0, device=d)),
    "slice assignment": lambda d: (lambda t: (t.__setitem__((slice(None), 1), 9.0), t)[1])(torch.zeros(2, 3, device=d)),
    "cat": lambda d: torch.cat([torch.ones(2, device=d), torch.empty(0, device=d), torch.zeros(1, device=d)]),
    "stack": lambda d: torch.stack([torch.ones(2, device=d), torch.zeros(2, device=d)], 1),
    "where": lambda d: torch.where(torch.tensor([True, False], device=d), torch.ones(2, device=d), 3.0),
    "gather": lambda d: torch.arange(6.0, device=d).reshape(2, 3).gather(1, torch.tensor([[2], [0]], device=d)),
    "scatter_add": lambda d: torch.zeros(3, device=d).scatter_add_(
        0, torch.tensor([0, 0, 2], device=d), torch.ones(3, device=d)
    ),
    "sort": lambda d: torch.tensor([3.0, 1.0, 2.0], device=d).sort(descending=True),
    "topk": lambda d: torch.tensor([3.0, 1.0, 2.0], device=d).topk(2),
    "max dim": lambda d: torch.tensor([[3.0, 1.0], [0.0, 2.0]], device=d).max(1),
    "unique": lambda d: torch.tensor([3, 1, 3], device=d).unique(return_inverse=True, return_counts=True),
    "nonzero": lambda d: torch.tensor([0, 1, 2], device=d).nonzero(),
    "cumsum": lambda d: torch.arange(4.0, device=d).cumsum(0),
    "softmax": lambda d: torch.arange(4.0, device=d).softmax(0),
    "layer_norm": lambda d: torch.nn.functional.layer_norm(torch.arange(8.0, device=d).reshape(2, 4), (4,)),
    "embedding": lambda d: torch.nn.functional.embedding(
        torch.tensor([1, 0], device=d), torch.arange(4.0, device=d).reshape(2, 2)
    ),
    "conv2d": lambda d: torch.nn.functional.conv2d(torch.ones(1, 2, 4, 4, device=d), torch.ones(3, 2, 3, 3, device=d)),
    "conv_transpose": lambda d: torch.nn.functional.conv_transpose1d(
        torch.ones(1, 2, 4, device=d), torch.ones(2, 3, 3, device=d)
    ),
    "max_pool": lambda d: torch.nn.functional.max_pool2d(
        torch.arange(16.0, device=d).reshape(1, 1, 4, 4), 2, return_indices=True
    ),
    "interpolate": lambda d: torch.nn.functional.interpolate(
        torch.arange(4.0, device=d).reshape(1, 1, 4), scale_factor=2
    ),
    "norm": lambda d: torch.arange(4.0, device=d).norm(),
    "svdvals": lambda d: torch.linalg.svdvals(torch.arange(4.0, device=d).reshape(2, 2)),
    "solve": lambda d: torch.linalg.solve(torch.eye(2, device=d) * 2, torch.ones(2, device=d)),
    "fft": lambda d: torch.fft.rfft(torch.arange(8.0, device=d)),
    "einsum": lambda d: torch.einsum("ij,jk->ik", torch.ones(2, 3, device=d), torch.ones(3, 2, device=d)),
    "foreach add": lambda d: torch._foreach_add([torch.ones(2, device=d), torch.zeros(3, device=d)], 2.0),
    "foreach mul lists": lambda d: torch._foreach_mul([torch.ones(2, device=d)], [torch.full((2,), 3.0, device=d)]),
    "foreach addcdiv": lambda d: torch._foreach_addcdiv(
        [torch.ones(2, device=d)], [torch.ones(2, device=d)], [torch.ones(2, device=d)], 2
    ),
    "foreach norm": lambda d: torch._foreach_norm([torch.arange(3.0, device=d), torch.ones(4, device=d)]),
    "bucketize": lambda d: torch.bucketize(torch.tensor([1.5, 3.5], device=d), torch.tensor([1.0, 2.0, 3.0], device=d)),
    "histc": lambda d: torch.histc(torch.tensor([1.0, 2.0, 2.0], device=d), 3, 0, 3),
    "one_hot": lambda d: torch.nn.functional.one_hot(torch.tensor([0, 2], device=d), 3),
    "tril": lambda d: torch.ones(3, 3, device=d).tril(),
    "roll": lambda d: torch.arange(4, device=d).roll(1),
    "repeat_interleave": lambda d: torch.arange(2, device=d).repeat_interleave(torch.tensor([2, 1], device=d)),
    "tensor_split": lambda d: torch.arange(5, device=d).tensor_split(torch.tensor([1, 3])),
    "clamp tensors": lambda d: torch.arange(4.0, device=d).clamp(min=torch.tensor(1.0, device=d)),
    "lerp": lambda d: torch.zeros(2, device=d).lerp(torch.ones(2, device=d), 0.25),
    "addcmul": lambda d: torch.ones(2, device=d).addcmul(torch.ones(2, device=d), torch.ones(2, device=d), value=0.5),
    "ctc": lambda d: torch.nn.functional.ctc_loss(
        torch.full((4, 1, 3), -1.0986, device=d), torch.tensor([[1, 2]], device=d), torch.tensor([4]), torch.tensor([2])
    ),
    "nll": lambda d: torch.nn.functional.cross_entropy(torch.eye(3, device=d), torch.tensor([0, 1, 1], device=d)),
    "grid_sample": lambda d: torch.nn.functional.grid_sample(
        torch.arange(4.0, device=d).reshape(1, 1, 2, 2), torch.zeros(1, 1, 1, 2, device=d), align_corners=False
    ),
    "embedding_bag": lambda d: torch.nn.functional.embedding_bag(
        torch.tensor([0, 1, 1], device=d), torch.arange(4.0, device=d).reshape(2, 2), torch.tensor([0, 2], device=d)
    ),
    "cdist": lambda d: torch.cdist(torch.zeros(2, 3, device=d), torch.ones(1, 3, device=d)),
    "complex": lambda d: torch.polar(torch.ones(2, device=d), torch.tensor([0.0, 1.0], device=d)).abs(),
    "scalar result": lambda d: torch.arange(4.0, device=d).equal(torch.arange(4.0, device=d)),
    "pad": lambda d: torch.nn.functional.pad(torch.arange(3.0, device=d), (1, 2), value=7),
    "isin": lambda d: torch.isin(torch.arange(4, device=d), torch.tensor([1, 3], device=d)),
    "quantile": lambda d: torch.quantile(torch.arange(5.0, device=d), 0.5),
    "meshgrid": lambda d: torch.meshgrid(torch.arange(2, device=d), torch.arange(3, device=d), indexing="ij"),
    "bernoulli shape": lambda d: torch.bernoulli(torch.ones(3, device=d)),
    "std_mean": lambda d: torch.std_mean(torch.arange(4.0, device=d)),
}


def flat(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", CALLS)
def test_aten_operators(name):
    mine, theirs = flat(CALLS[name]("sim")), flat(CALLS[name]("cpu"))
    assert len(mine) == len(theirs)
    for got, expected in zip(mine, theirs, strict=True):
        if isinstance(got, torch.Tensor):
            assert got.is_sim
        close(got, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64], ids=str)
def test_dtypes(dtype):
    x = make_tensor((3, 4), dtype=dtype, device="cpu")
    close(ops.split(x.sim())[0], ops.split(x)[0])
    close(torch.flip(x.sim(), [0]), torch.flip(x, [0]))


def test_complex32_is_computed_in_complex64():
    x = torch.tensor([[1 + 2j, 3 - 1j], [0.5j, -2.0]])
    half = x.to(torch.complex32).sim()
    for function in (torch.sum, torch.mean, lambda x: x.cumsum(0), lambda x: x @ x, lambda x: x[0] @ x[1]):
        assert function(half).dtype is torch.complex32
        close(function(half).cpu().to(torch.complex64), function(x), rtol=2e-3, atol=2e-3)
    out = torch.empty(2, dtype=torch.complex32, device="sim")
    close(torch.sum(half, 0, out=out).cpu().to(torch.complex64), x.sum(0), rtol=2e-3, atol=2e-3)
    # The other operand decides the dtype of the result.
    assert torch.dot(x[0].sim(), half[0].to(torch.complex64)).dtype is torch.complex64


def test_foreach_in_place():
    tensors = [torch.ones(2, device="sim"), torch.arange(3.0, device="sim")[::2]]
    torch._foreach_mul_(tensors, 3.0)
    torch._foreach_add_(tensors, [torch.ones(2, device="sim"), torch.ones(2, device="sim")])
    assert [t.tolist() for t in tensors] == [[4, 4], [1, 7]]


@pytest.mark.parametrize("kind", [torch.nn.BatchNorm1d, torch.nn.InstanceNorm1d])
def test_running_statistics(kind):
    layers = [kind(3, affine=True, track_running_stats=True) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    layers[1].sim()
    for step in range(3):
        x = torch.randn(8, 3, 5) * (step + 1) + step
        close(layers[1](x.sim()).detach(), layers[0](x).detach())
    assert not torch.equal(layers[0].running_mean, torch.zeros(3))
    close(layers[1].running_mean, layers[0].running_mean)
    close(layers[1].running_var, layers[0].running_var)
    assert layers[1].num_batches_tracked.item() == layers[0].num_batches_tracked.item()
    for layer in layers:
        layer.eval()
    x = torch.randn(4, 3, 5)
    close(layers[1](x.sim()).detach(), layers[0](x).detach())


# ---- Mixed devices


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: torch.mm(a[None], b[:, None]),
        lambda a, b: torch.hypot(a, b),
        lambda a, b: torch.cat([a, b]),
        lambda a, b: a.add_(b),
        lambda a, b: torch.where(a > 0, a, b),
        lambda a, b: torch.nn.functional.mse_loss(a, b),
        lambda a, b: ops.maybe(a, b),
        lambda a, b: torch._foreach_add([a], [b]),
        lambda a, b: torch.dot(a, b),
    ],
)
@pytest.mark.parametrize("other", ["cpu", "sim:1"])
def test_mixed_devices(call, other):
    a, b = torch.ones(2, device="sim"), torch.ones(2, device=other)
    for first, second in ((a, b), (b, a)):
        with pytest.raises(RuntimeError, match="same device") as raised:
            call(first, second)
        assert "sim:0" in str(raised.value)
        assert other in str(raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a + b,
        lambda a, b: b * a,
        lambda a, b: torch.hypot(a, b),
        lambda a, b: torch.where(a > 1, a, b),
        lambda a, b: a.add_(b),
        lambda a, b: torch.pow(a, b),
        lambda a, b: ops.maybe(a, b),
    ],
)
def test_cpu_scalars_mix(call):
    a = torch.arange(3.0)
    made = call(a.sim(), torch.tensor(1.5))
    assert made.is_sim
    close(made, call(a.clone(), torch.tensor(1.5)))


def test_cpu_scalars_do_not_promote():
    for scalar in (torch.tensor(2.0, dtype=torch.float64), torch.tensor(2)):
        assert torch.hypot(torch.ones(2, device="sim"), scalar.float()).dtype == torch.float32
        assert (torch.ones(2, device="sim") / scalar).dtype == torch.float32
    assert (torch.ones(2, dtype=torch.int32, device="sim") / torch.tensor(2.0)).dtype == torch.float32
    assert (torch.ones((), device="sim") // 2.0).dtype == torch.float32


def test_mixed_devices_in_lists_of_optional_tensors():
    with pytest.raises(RuntimeError, match="same device"):
        ops.gather([torch.ones(2, device="sim"), None, torch.ones(2, device="sim:1")])
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="sim")[torch.tensor([0], device="sim:1")]


def test_device_scalar_of_another_device_does_not_mix():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="sim") + torch.tensor(1.0, device="sim:1")


def test_writing_a_cpu_tensor_from_the_device_is_refused():
    with pytest.raises(RuntimeError, match="device"):
        torch.hypot(torch.ones(2, device="sim"), torch.ones(2, device="sim"), out=torch.empty(2))
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(2).add_(torch.ones(2, device="sim"))


# ---- Counters, warnings and errors


def test_counters():
    hardpoint.reset_counters()
    assert hardpoint.counters() == {}
    x = torch.ones(2, device="sim")
    hardpoint.reset_counters()
    for _ in range(3):
        ops.triple(x)
    ops.triple_(x)
    assert hardpoint.counters() == {"hptest::triple": {"cpu": 3}, "hptest::triple_": {"cpu": 1}}
    hardpoint.reset_counters()
    assert hardpoint.counters() == {}


def test_one_warning_per_operator(run_python):
    run_python(
        """
        import warnings
        import torch
        import hardpoint

        x = torch.eye(3, device="sim")
        out = tuple(torch.empty(0, dtype=torch.complex64, device="sim") for _ in range(2))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                torch.linalg.eig(x)
                torch.linalg.eigvals(x)
                torch.linalg.eig(x, out=out)
        said = [str(w.message) for w in caught]
        names = [message.split()[0] for message in said]
        assert len(names) == len(set(names)), said
        assert {"aten::linalg_eig", "aten::_linalg_eigvals", "aten::linalg_eig.out"} <= set(names), said
        assert all(w.category is UserWarning for w in caught)
        assert all(f"{name} runs on the CPU: sim has no kernel" in m for name, m in zip(names, said)), said
        assert all(name in hardpoint.counters() for name in names)
        assert "csrc" not in said[0]
        """
    )


@pytest.mark.parametrize("loss", ["mse_loss", "smooth_l1_loss", "l1_loss", "huber_loss"])
def test_no_warnings_about_internal_operations(loss):
    """For example, about resizing an output that the program did not pass."""
    x = torch.ones(3, device="sim")
    function = getattr(torch.nn.functional, loss)
    function(x, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert function(x, x * 3).item() == function(x.cpu(), x.cpu() * 3).item()


def test_warning_of_a_custom_operator():
    define("quiet(Tensor x) -> Tensor", lambda t: t + 1)
    x = torch.ones(2, device="sim")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            assert ops.quiet(x).tolist() == [2, 2]
    said = [w for w in seen if "hptest::quiet runs on the CPU" in str(w.message)]
    assert len(said) == 1
    assert said[0].filename.endswith(".py")  # a line of Python code, not of the adapter


def test_warning_as_an_error():
    define("strict(Tensor x) -> Tensor", lambda t: t + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="hptest::strict runs on the CPU"):
            ops.strict(torch.ones(2, device="sim"))


def test_errors_of_the_kernel_come_through():
    with pytest.raises(ValueError, match="wrong input 17"):
        ops.failing(torch.ones(2, device="sim"))
    with pytest.raises(RuntimeError, match="square"):
        torch.linalg.eig(torch.ones(2, 3, device="sim"))
    assert ops.triple(torch.ones(1, device="sim")).item() == 3


def test_operator_without_a_cpu_kernel():
    with pytest.raises(NotImplementedError, match="hptest::nowhere has neither a kernel for sim nor one for the CPU"):
        ops.nowhere(torch.ones(2, device="sim"))


def test_device_kernel_replaces_the_cpu_tier():
    define("taken(Tensor x) -> Tensor", lambda t: t + 1)
    x = torch.ones(2, device="sim")
    assert ops.taken(x).tolist() == [2, 2]
    library.impl("taken", lambda t: t + 100, "PrivateUse1")
    assert ops.taken(x).tolist() == [101, 101]
    assert ops.taken(torch.ones(1)).tolist() == [2]


# ---- Unsupported layouts


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.quantize_per_tensor(torch.ones(2, device="sim"), 0.1, 0, torch.qint8),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8).to("sim"),
        lambda: torch.ones(2, device="sim").to_mkldnn(),
    ],
)
@pytest.mark.filterwarnings("ignore")  # torch's warnings about these layouts
def test_other_layouts_are_refused(call):
    with pytest.raises((RuntimeError, NotImplementedError), match=r"sim (has no|cannot hold|holds dense)"):
        call()


# ---- Operators without a CPU kernel


def test_composite_kernels_serve_the_cpu():
    library.define("composed(Tensor x) -> Tensor")
    library.impl("composed", lambda x: x * 2 + 1, "CompositeExplicitAutograd")
    with hardpoint.fallback(".*"):
        assert ops.composed(torch.ones(2, device="sim")).tolist() == [3, 3]


def test_decomposition_on_the_cpu(counted):
    """torch has _fused_rms_norm_backward for other devices only."""
    x = torch.randn(4, 8)
    grads = []
    for device in ("cpu", "sim"):
        norm, rows = torch.nn.RMSNorm(8).to(device), x.clone().to(device).requires_grad_()
        with hardpoint.fallback(".*"):
            (norm(rows) ** 2).sum().backward()
        grads.append([rows.grad.cpu(), norm.weight.grad.cpu()])
    close(grads[1], grads[0])
    assert counted()["aten::_fused_rms_norm_backward"] == {"cpu": 1}


def test_rules_reach_the_cells_of_recurrent_layers(counted):
    layer, x = torch.nn.LSTM(3, 4), torch.randn(2, 1, 3)
    expected = layer(x)[0]
    with hardpoint.fallback(".*"):
        actual = layer.to("sim")(x.to("sim"))[0]
    close(actual.cpu(), expected)
    assert not [name for name, calls in counted().items() if "portable" in calls and name != "aten::copy_"]


def test_decompositions_may_decline():
    """torch's decomposition of adaptive_max_pool2d returns NotImplemented for some shapes."""
    from hardpoint.torch import decompositions

    x = torch.randn(1, 3, 5, 5)
    assert decompositions.find("aten::adaptive_max_pool2d") is not None
    with hardpoint.fallback("adaptive_max_pool2d=decomposition"):
        values, indices = torch.nn.functional.adaptive_max_pool2d(x.to("sim"), 3, return_indices=True)
    exactly((values.cpu(), indices.cpu()), torch.nn.functional.adaptive_max_pool2d(x, 3, return_indices=True))


def test_attention_mask_with_gradients():
    """The CPU's fused attention has no gradient for the mask: the device's choice must not be the CPU's."""

    def run(device):
        torch.manual_seed(0)
        q, mask = torch.randn(1, 2, 4, 8).to(device), torch.randn(4, 4).to(device).requires_grad_()
        torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask).square().sum().backward()
        return mask.grad.cpu()

    expected = run("cpu")
    with hardpoint.fallback(".*"):
        close(run("sim"), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["avg_pool3d", "gelu"])
def test_strided_outputs(name):
    """torch's CPU kernels of these write to any output as if it were contiguous."""
    function = getattr(torch._C._nn, name)
    arguments = (2,) if name == "avg_pool3d" else ()
    x = torch.randn(2, 4, 4, 4)
    expected = function(x, *arguments)
    out = torch.zeros(expected.shape[::-1], device="sim").permute(3, 2, 1, 0)
    with hardpoint.fallback(".*"):
        function(x.to("sim"), *arguments, out=out)
    close(out.cpu(), expected)
