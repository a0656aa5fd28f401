"""Sparse and nested tensors: kept on the device, computed by operators that run there or on the CPU."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch

close = functools.partial(torch.testing.assert_close, check_device=False, rtol=1e-5, atol=1e-5)

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # torch's warnings that these layouts are new


def matrix() -> torch.Tensor:
    dense = torch.tensor([[0.0, 2.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0], [3.0, 0.0, 0.5, 0.0]])
    return dense.clone()


LAYOUTS = {
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x[:2].to_sparse_bsr((1, 2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_conversions(layout: str) -> None:
    make = LAYOUTS[layout]
    expected, made = make(matrix()), make(matrix().to("sim"))
    assert made.device.type == "sim"
    assert made.layout == expected.layout
    assert made.values().device.type == "sim"
    assert torch.equal(made.values().cpu(), expected.values())
    assert torch.equal(made.to_dense().cpu(), expected.to_dense())
    assert torch.equal(made.cpu().to_dense(), expected.to_dense())
    assert torch.equal(expected.to("sim").to_dense().cpu(), expected.to_dense())


def test_coo_construction_and_coalesce() -> None:
    indices, values = torch.tensor([[0, 1, 0], [2, 0, 2]]), torch.tensor([1.0, 2.0, 3.0])
    expected = torch.sparse_coo_tensor(indices, values, (2, 3))
    made = torch.sparse_coo_tensor(indices.to("sim"), values.to("sim"), (2, 3))
    assert not made.is_coalesced()
    assert made._nnz() == 3
    assert made.sparse_dim() == 2
    done = made.coalesce()
    assert done.is_coalesced()
    assert torch.equal(done.indices().cpu(), expected.coalesce().indices())
    assert torch.equal(done.values().cpu(), torch.tensor([4.0, 2.0]))
    assert torch.equal(made.to_dense().cpu(), expected.to_dense())
    assert str(done.device) == "sim:0"
    assert torch.sparse_coo_tensor([[0]], [1.0], (2,), device="sim").to_dense().tolist() == [1, 0]


@pytest.mark.parametrize("convert", [torch.Tensor.to_sparse_csr, torch.Tensor.to_sparse_csc], ids=["csr", "csc"])
def test_coo_to_compressed(convert) -> None:
    x = torch.arange(30).view(5, 6) % 4
    for rows in (5, 0):
        expected, found = (convert(t.to_sparse_coo()) for t in (x[:rows], x[:rows].to("sim")))
        assert torch.equal(found.to_dense().cpu(), expected.to_dense())
        assert torch.equal(found.values().cpu(), expected.values())


def test_checked_construction() -> None:
    index, values = torch.tensor([[0, 2], [1, 0]], device="sim"), torch.tensor([1.0, 2.0], device="sim")
    made = torch.sparse_coo_tensor(index, values, (3, 3), check_invariants=True, is_coalesced=True)
    assert made.is_coalesced()
    assert made.to_dense().tolist() == [[0, 1, 0], [0, 0, 0], [2, 0, 0]]
    with pytest.raises(RuntimeError, match="uncoalesced"):
        torch.sparse_coo_tensor(index[:, [0, 0]], values, (3, 3), check_invariants=True, is_coalesced=True)


def test_csr_construction() -> None:
    parts = (torch.tensor([0, 1, 3]), torch.tensor([1, 0, 2]), torch.tensor([1.0, 2.0, 3.0]))
    made = torch.sparse_csr_tensor(*(p.to("sim") for p in parts), (2, 3))
    assert torch.equal(made.to_dense().cpu(), torch.sparse_csr_tensor(*parts, (2, 3)).to_dense())


@pytest.mark.parametrize(
    "compute",
    [
        lambda s, d: s @ d,
        lambda s, d: torch.sparse.mm(s, d),
        lambda s, d: torch.addmm(torch.ones(3, 2, device=d.device), s, d),
        lambda s, d: s @ d[:, 0],
        lambda s, d: (s * 2).to_dense(),
        lambda s, d: (s + s).to_dense(),
        lambda s, d: s.sum(),
        lambda s, d: s.to_dense().relu(),
        lambda s, d: s.abs().to_dense(),
    ],
)
@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_arithmetic(compute, layout: str) -> None:
    torch.manual_seed(0)
    dense = torch.randn(4, 2)
    expected = compute(LAYOUTS[layout](matrix()), dense)
    actual = compute(LAYOUTS[layout](matrix()).to("sim"), dense.to("sim"))
    assert actual.device.type == "sim"
    close(actual.cpu(), expected)


@pytest.mark.parametrize("call", [torch.sparse.softmax, torch.sparse.sum])
def test_sparse_functions(call) -> None:
    expected, actual = call(matrix().to_sparse(), 1), call(matrix().to_sparse().to("sim"), 1)
    close(actual.to_dense().cpu(), expected.to_dense())


def test_in_place() -> None:
    expected, actual = matrix().to_sparse(), matrix().to_sparse().to("sim")
    for s in (expected, actual):
        s.mul_(3).add_(s)
    close(actual.to_dense().cpu(), expected.to_dense())
    assert torch.equal(actual.zero_().to_dense().cpu(), torch.zeros(3, 4))


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_dtypes_that_the_cpu_lacks(layout: str) -> None:
    def of(dtype: torch.dtype) -> torch.Tensor:
        indices, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([1 + 2j, 3 - 1j, 0.5j])
        whole = torch.sparse_coo_tensor(indices.to("sim"), values.to("sim").to(dtype), (2, 3)).coalesce()
        return whole if layout == "coo" else whole.to_sparse_csr()

    narrow, wide = of(torch.complex32), of(torch.complex64)
    dense = narrow.to_dense()
    assert dense.dtype is torch.complex32
    assert torch.equal(dense.cpu().to(torch.complex64), wide.to_dense().cpu())
    total = narrow + narrow
    assert total.layout == narrow.layout
    assert total.dtype is torch.complex32
    assert torch.equal(total.values().cpu().to(torch.complex64), 2 * wide.values().cpu())
    if layout == "coo":
        narrow.add_(narrow)
        assert torch.equal(narrow.values().cpu().to(torch.complex64), 2 * wide.values().cpu())


def gradients(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    weight = torch.randn(4, 2).to(device).requires_grad_()
    values = torch.tensor([2.0, -1.0, 3.0]).to(device).requires_grad_()
    source = torch.sparse_coo_tensor(torch.tensor([[0, 0, 2], [1, 3, 0]]).to(device), values, (3, 4))
    (torch.sparse.mm(source, weight) ** 2).sum().backward()
    dense = matrix().to(device).requires_grad_()
    (dense.to_sparse().to_dense() * 3).sum().backward()
    return [weight.grad.cpu(), values.grad.cpu(), dense.grad.cpu()]


def test_gradients() -> None:
    close(gradients("sim"), gradients("cpu"))


def trained_table(device: str) -> torch.Tensor:
    torch.manual_seed(0)
    table = torch.nn.Embedding(6, 3, sparse=True).to(device)
    optimizer = torch.optim.SparseAdam(table.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        (table(torch.tensor([1, 4, 1, step], device=device)) ** 2).sum().backward()
        assert table.weight.grad.is_sparse
        optimizer.step()
    return table.weight.detach().cpu()


def test_sparse_embedding_trains() -> None:
    close(trained_table("sim"), trained_table("cpu"))


# ---- Nested tensors


def sequences(device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(n, 4).to(device) for n in (2, 3, 1)]


def test_nested_tensors() -> None:
    expected, made = (torch.nested.nested_tensor(sequences(d)) for d in ("cpu", "sim"))
    assert made.is_nested
    assert made.device.type == "sim"
    close(made.to_padded_tensor(0.0).cpu(), expected.to_padded_tensor(0.0))
    close([t.cpu() for t in made.unbind()], list(expected.unbind()))
    close((made * 2 + made).to_padded_tensor(0.0).cpu(), (expected * 2 + expected).to_padded_tensor(0.0))
    close(torch.softmax(made, -1).to_padded_tensor(0.0).cpu(), torch.softmax(expected, -1).to_padded_tensor(0.0))
    close(made.cpu().to_padded_tensor(0.0), expected.to_padded_tensor(0.0))


def test_jagged_tensors() -> None:
    def run(device: str) -> tuple[torch.Tensor, ...]:
        x = torch.nested.nested_tensor(sequences(device), layout=torch.jagged, requires_grad=True)
        linear = torch.nn.Linear(4, 4)
        with torch.no_grad():
            linear.weight.copy_(torch.arange(16.0).reshape(4, 4) / 16)
            linear.bias.zero_()
        y = linear.to(device)(x).relu()
        y.values().sum().backward()
        return y.values().detach().cpu(), x.grad.values().cpu()

    close(run("sim"), run("cpu"))


def test_attention_over_jagged_sequences() -> None:
    def run(device: str) -> list[torch.Tensor]:
        x = torch.nested.nested_tensor(sequences(device), layout=torch.jagged)
        heads = x.unflatten(-1, [2, 2]).transpose(1, 2)
        attended = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        return [t.cpu() for t in attended.transpose(1, 2).flatten(-2).unbind()]

    close(run("sim"), run("cpu"))


@pytest.mark.parametrize("lengths", [(2, 3), (1, 1)])
def test_transformer_encoder_with_a_padding_mask(lengths: tuple[int, int]) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder, x = torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 3, 8)
    padding = torch.arange(3) >= torch.tensor(lengths)[:, None]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder(x, src_key_padding_mask=padding)
        actual = encoder.to("sim")(x.to("sim"), src_key_padding_mask=padding.to("sim"))
    close(actual.cpu(), expected)
