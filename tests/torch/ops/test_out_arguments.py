"""``out=`` and in-place arguments that torch rejects: other devices, dtypes, overlapping memory; and its warnings."""

from __future__ import annotations

import warnings

import pytest
import torch

I64, F32 = torch.int64, torch.float32

#: Name -> a call with the keyword `out`, or several outputs.
CALLS = {
    "add": lambda x, i, **k: torch.add(x, x, **k),
    "all": lambda x, i, **k: torch.all(x, **k),
    "amax": lambda x, i, **k: torch.amax(x, 1, **k),
    "argmax": lambda x, i, **k: torch.argmax(x, **k),
    "bmm": lambda x, i, **k: torch.bmm(x[None], x[None], **k),
    "bucketize": lambda x, i, **k: torch.bucketize(x, x[0].sort().values, **k),
    "cat": lambda x, i, **k: torch.cat([x, x], **k),
    "cumsum": lambda x, i, **k: torch.cumsum(x, 0, **k),
    "cross": lambda x, i, **k: torch.linalg.cross(x, x.flip(0), **k),
    "floor_divide": lambda x, i, **k: torch.floor_divide(x[0, 0], x[0, 1], **k),
    "frexp": lambda x, i, **k: torch.frexp(x, **k),
    "gather": lambda x, i, **k: torch.gather(x, 0, i, **k),
    "index_add": lambda x, i, **k: torch.index_add(x[0, 0], 0, i[0, 0], x[0, 0], **k),
    "index_copy": lambda x, i, **k: torch.index_copy(x[0, 0], 0, i[0, 0], x[0, 0], **k),
    "index_select": lambda x, i, **k: torch.index_select(x[0, 0], 0, i[0, 0], **k),
    "lstsq": lambda x, i, **k: torch.linalg.lstsq(x + 3 * torch.eye(3, device=x.device), x, **k),
    "max": lambda x, i, **k: torch.max(x, **k),
    "mean": lambda x, i, **k: torch.mean(x, **k),
    "mm": lambda x, i, **k: torch.mm(x, x, **k),
    "nansum": lambda x, i, **k: torch.nansum(x, **k),
    "norm": lambda x, i, **k: torch.norm(x, **k),
    "renorm": lambda x, i, **k: torch.renorm(x, 2, 0, 1.0, **k),
    "scatter": lambda x, i, **k: torch.scatter(x, 0, i, x, **k),
    "slogdet": lambda x, i, **k: torch.linalg.slogdet(x, **k),
    "softmax": lambda x, i, **k: torch.softmax(x, 0, **k),
    "sort": lambda x, i, **k: torch.sort(x, **k),
    "sum": lambda x, i, **k: torch.sum(x, 0, **k),
    "take": lambda x, i, **k: torch.take(x, i, **k),
    "topk": lambda x, i, **k: torch.topk(x, 2, **k),
    "var": lambda x, i, **k: torch.var(x, 0, **k),
}


def inputs(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(3, 3).to(device), torch.tensor([[0, 1, 2], [0, 2, 1], [0, 0, 1]], device=device)


def outputs(name: str, make):
    """Outputs made from the results of a call."""
    result = CALLS[name](*inputs("cpu"))
    return tuple(make(t) for t in result) if isinstance(result, tuple) else make(result)


def outcome(name: str, device: str, make) -> tuple[str, list[str]]:
    """The type of the error, if any, and the warnings about resized outputs."""
    out, error = outputs(name, make), ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            CALLS[name](*inputs(device), out=out)
        except (RuntimeError, NotImplementedError, TypeError) as raised:
            error = type(raised).__name__
    return error, [str(w.message)[:40] for w in caught if "was resized" in str(w.message)]


@pytest.mark.parametrize("other", ["cpu", "sim:1"])
@pytest.mark.parametrize("name", CALLS)
def test_output_on_another_device(name: str, other: str) -> None:
    with pytest.raises(RuntimeError, match=r"device"):
        CALLS[name](*inputs("sim"), out=outputs(name, lambda t: torch.empty_like(t, device=other)))


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.complex64, torch.bool], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_output_of_another_dtype(name: str, dtype: torch.dtype) -> None:
    error, _ = outcome(name, "sim", lambda t: torch.empty_like(t, dtype=dtype, device="sim"))
    expected, _ = outcome(name, "cpu", lambda t: torch.empty_like(t, dtype=dtype))
    assert bool(error) == bool(expected)


@pytest.mark.parametrize("name", CALLS)
def test_warning_about_resized_outputs(name: str) -> None:
    def larger(device: str):
        return lambda t: torch.empty([n + 1 for n in t.shape] or [2], dtype=t.dtype, device=device)

    assert outcome(name, "sim", larger("sim")) == outcome(name, "cpu", larger("cpu"))


# ---- Overlapping memory

OVERLAPPING = {
    "put_": lambda x, i: x.put_(i.reshape(-1), torch.ones(9, device=x.device)),
    "index_put_": lambda x, i: x.index_put_((i[0],), torch.ones(3, device=x.device)),
    "index_fill_": lambda x, i: x.index_fill_(0, i[0], 1.0),
    "index_add_": lambda x, i: x.index_add_(0, i[0], torch.ones(3, 3, device=x.device)),
    "index_copy_": lambda x, i: x.index_copy_(0, i[0], torch.ones(3, 3, device=x.device)),
    "masked_fill_": lambda x, i: x.masked_fill_(i > 0, 1.0),
    "masked_scatter_": lambda x, i: x.masked_scatter_(i > 0, torch.ones(9, device=x.device)),
    "scatter_": lambda x, i: x.scatter_(0, i, 1.0),
    "scatter_add_": lambda x, i: x.scatter_add_(0, i, torch.ones(3, 3, device=x.device)),
    "cumsum_": lambda x, i: x.cumsum_(0),
    "tril_": lambda x, i: x.tril_(),
    "normal_": lambda x, i: x.normal_(),
    "bernoulli_": lambda x, i: x.bernoulli_(0.5),
    "fill_": lambda x, i: x.fill_(2.0),
    "zero_": lambda x, i: x.zero_(),
}


def attempt(function, *arguments: torch.Tensor) -> str:
    try:
        function(*arguments)
    except RuntimeError as error:
        return str(error).partition(".")[0]
    return ""


@pytest.mark.filterwarnings("ignore:Use of")  # deprecated writes to expanded tensors
@pytest.mark.parametrize("name", OVERLAPPING)
def test_writes_to_memory_that_overlaps_itself(name: str) -> None:
    def run(device: str) -> tuple[str, list[float]]:
        base = torch.ones(3).to(device)
        error = attempt(OVERLAPPING[name], base.expand(3, 3), inputs(device)[1])
        return error, [] if name in ("normal_", "bernoulli_") else base.tolist()

    error, values = run("sim")
    expected, expected_values = run("cpu")
    assert error == expected
    if not error:
        assert values == expected_values


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: torch.gather(x[:3], 0, i, out=x[1:4]),
        lambda x, i: torch.index_select(x[:3], 0, i[0], out=x[1:4]),
        lambda x, i: torch.take(x, i, out=x[:3]),
        lambda x, i: x.put_(i, x[1:4]),
        lambda x, i: x[:3].scatter_(0, i, x[:3]),
        lambda x, i: x[:3].scatter_add_(0, i, x[1:4]),
        lambda x, i: x[:3].index_copy_(0, i[0], x[1:4]),
        lambda x, i: x[:3].index_add_(0, i[0], x[1:4]),
        lambda x, i: x[:3].masked_scatter_(i > 0, x[1:4]),
        lambda x, i: torch.cat([x[:1], x[1:3]], out=x[1:4]),
        lambda x, i: torch.masked_select(x[:3], i > 0, out=x.view(-1)[1:4]),
    ],
)
def test_outputs_that_overlap_an_argument(call) -> None:
    def run(device: str) -> tuple[str, torch.Tensor]:
        x = torch.arange(15.0).reshape(5, 3).to(device)
        return attempt(call, x, inputs(device)[1]), x.cpu()

    (error, x), (expected, right) = run("sim"), run("cpu")
    assert error == expected
    assert error or torch.equal(x, right)


def test_an_output_may_be_the_accumulated_argument(counted) -> None:
    x = torch.eye(3, device="sim")
    torch.addmm(x, x.clone(), x.clone(), out=x)
    torch.cumsum(x, 0, out=x)
    assert x.cpu().tolist() == [[2, 0, 0], [2, 2, 0], [2, 2, 2]]
    assert all("cpu" not in calls for calls in counted().values())


def test_an_output_may_be_the_argument_of_a_factorization() -> None:
    a = (
        torch.eye(4, dtype=torch.float64) * 3
        + torch.randn(4, 4, dtype=torch.float64, generator=torch.manual_seed(0)) / 4
    )
    device = a.to("sim")
    torch.linalg.inv(device, out=device)
    torch.testing.assert_close(device.cpu(), torch.linalg.inv(a))


def test_a_wrong_dtype_is_named_as_on_the_cpu() -> None:
    for device in ("cpu", "sim"):
        out = torch.empty(0, dtype=torch.int32, device=device)
        with pytest.raises(RuntimeError, match="Expected out tensor to have dtype float, but got int instead"):
            torch.linalg.inv(torch.eye(2, device=device), out=out)
