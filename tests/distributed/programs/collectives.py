"""Every collective, compared with gloo on the CPU where gloo supports it, else with a locally computed result.

Arguments: "bound" or "free" (whether the process group is bound to its device), then the tiers that must have served
all_reduce and broadcast.
"""

from __future__ import annotations

import itertools
import sys

import torch
import torch.distributed as dist
from common import DEVICE, RANK, SIZE, end, start

import hardpoint

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
OTHERS = (torch.bool, torch.complex64)
DTYPES = (*FLOATS, *INTEGERS, *OTHERS)
#: gloo cannot reduce these.
NOT_GLOO = (torch.int16, *OTHERS)
SIZES = (0, 1, 7, 1003)
#: All combinations in one configuration, every third in the others.
SHARE = 1 if (SIZE, sys.argv[1]) == (2, "free") else 3
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float64: 1e-12}


def values(dtype: torch.dtype, *shape: int, rank: int = RANK, key: int = 0) -> torch.Tensor:
    """Values of a rank, known to every rank."""
    generator = torch.Generator().manual_seed(1000 * key + rank)
    if dtype.is_floating_point or dtype.is_complex:
        wide = torch.complex128 if dtype.is_complex else torch.float64
        return torch.randn(*shape, generator=generator, dtype=wide).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=generator).bool()
    return torch.randint(0, 5, shape, generator=generator).to(dtype)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """Copy to the device with gaps between the elements."""
    room = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype, device=DEVICE)
    room[..., 0] = tensor.to(DEVICE)
    return room[..., 0]


def same(found: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    bound = TOLERANCE.get(expected.dtype, 2e-6)
    torch.testing.assert_close(
        found.cpu(), expected, rtol=bound, atol=bound * 10, equal_nan=True, msg=lambda m: f"rank {RANK}, {what}: {m}"
    )


def reduced(op: dist.ReduceOp.RedOpType, dtype: torch.dtype, parts: list[torch.Tensor]) -> torch.Tensor:
    if dtype == torch.bool:
        parts = [p.to(torch.uint8) for p in parts]
        op = {dist.ReduceOp.SUM: dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT: dist.ReduceOp.MIN}.get(op, op)
    wide = [p.to(torch.float64) if p.dtype.is_floating_point else p for p in parts]
    stacked = torch.stack(wide)
    if op == dist.ReduceOp.SUM:
        total = stacked.sum(0)
    elif op == dist.ReduceOp.AVG:
        total = stacked.sum(0)
        total = total / SIZE if total.is_floating_point() or total.is_complex() else total // SIZE
    elif op == dist.ReduceOp.PRODUCT:
        total = stacked.prod(0)
    else:
        total = stacked.amin(0) if op == dist.ReduceOp.MIN else stacked.amax(0)
    return total.to(dtype)


def reductions() -> None:
    operations = (
        dist.ReduceOp.SUM,
        dist.ReduceOp.AVG,
        dist.ReduceOp.PRODUCT,
        dist.ReduceOp.MIN,
        dist.ReduceOp.MAX,
    )
    for key, (dtype, size, op, gaps) in enumerate(itertools.product(DTYPES, SIZES, operations, (False, True))):
        if key % SHARE != 0:
            continue
        if (dtype == torch.bool and op == dist.ReduceOp.AVG) or (dtype.is_complex and op not in operations[:2]):
            continue
        what = f"{op} of {size} {dtype}"
        own = values(dtype, size, key=key)
        parts = [values(dtype, size, rank=r, key=key) for r in range(SIZE)]
        expected = reduced(op, dtype, parts)
        if dtype not in NOT_GLOO and op != dist.ReduceOp.AVG and size:
            by_gloo = own.clone()
            dist.all_reduce(by_gloo, op)
            same(by_gloo, expected, "gloo's " + what)
        place = strided if gaps else lambda t: t.to(DEVICE)
        given = place(own)
        dist.all_reduce(given, op)
        same(given, expected, "all_reduce " + what)
        root = key % SIZE
        given = place(own)
        dist.reduce(given, root, op)
        same(given, expected if root == RANK else given.cpu(), "reduce " + what)
        wholes = [values(dtype, SIZE, size, rank=r, key=key) for r in range(SIZE)]
        output = place(torch.zeros(size, dtype=dtype))
        dist.reduce_scatter_tensor(output, place(wholes[RANK]).reshape(-1) if gaps else wholes[RANK].to(DEVICE), op)
        same(output, reduced(op, dtype, [w[RANK] for w in wholes]), "reduce_scatter " + what)
        output = place(torch.zeros(size, dtype=dtype))
        dist.reduce_scatter(output, [place(w) for w in wholes[RANK]], op)
        same(output, reduced(op, dtype, [w[RANK] for w in wholes]), "reduce_scatter of a list " + what)
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):
        given, by_gloo = values(torch.int32, 9).to(DEVICE), values(torch.int32, 9)
        dist.all_reduce(given, op)
        dist.all_reduce(by_gloo, op)
        same(given, by_gloo, str(op))


def data_movement() -> None:
    for key, (dtype, size, gaps) in enumerate(itertools.product(DTYPES, SIZES, (False, True))):
        if key % SHARE != 0:
            continue
        what, place = f"of {size} {dtype}", strided if gaps else lambda t: t.to(DEVICE)
        root = key % SIZE
        parts = [values(dtype, size, rank=r, key=key) for r in range(SIZE)]
        given = place(parts[RANK])
        dist.broadcast(given, root)
        same(given, parts[root], "broadcast " + what)
        into = [place(torch.zeros_like(p)) for p in parts]
        dist.all_gather(into, place(parts[RANK]))
        for found, part in zip(into, parts, strict=True):
            same(found, part, "all_gather " + what)
        output = place(torch.zeros(SIZE, size, dtype=dtype))
        dist.all_gather_into_tensor(output, place(parts[RANK]))
        same(output, torch.stack(parts), "all_gather_into_tensor " + what)
        into = [place(torch.zeros_like(p)) for p in parts] if root == RANK else None
        dist.gather(place(parts[RANK]), into, root)
        for found, part in zip(into or [], parts, strict=False):
            same(found, part, "gather " + what)
        output = place(torch.zeros(size, dtype=dtype))
        dist.scatter(output, [place(p) for p in parts] if root == RANK else None, root)
        same(output, values(dtype, size, rank=RANK, key=key), "scatter " + what)
        wholes = [values(dtype, SIZE, size, rank=r, key=key) for r in range(SIZE)]
        output = place(torch.zeros(SIZE, size, dtype=dtype))
        dist.all_to_all_single(output, place(wholes[RANK]))
        same(output, torch.stack([w[RANK] for w in wholes]), "all_to_all_single " + what)
        into = [place(torch.zeros(size, dtype=dtype)) for _ in range(SIZE)]
        dist.all_to_all(into, [place(w) for w in wholes[RANK]])
        for found, whole in zip(into, wholes, strict=True):
            same(found, whole[RANK], "all_to_all " + what)


def uneven_splits() -> None:
    """Rank i sends i + j + 1 rows to rank j, and none to itself."""

    def rows(sender: int, receiver: int) -> int:
        return 0 if sender == receiver else sender + receiver + 1

    sent = [rows(RANK, j) for j in range(SIZE)]
    received = [rows(j, RANK) for j in range(SIZE)]
    given = [values(torch.float32, sum(rows(r, j) for j in range(SIZE)), 3, rank=r) for r in range(SIZE)]
    output = torch.zeros(sum(received), 3, device=DEVICE)
    dist.all_to_all_single(output, given[RANK].to(DEVICE), received, sent)
    expected = [given[j].split([rows(j, k) for k in range(SIZE)])[RANK] for j in range(SIZE)]
    same(output, torch.cat(expected), "uneven all_to_all_single")


def point_to_point() -> None:
    after, before = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    for size, gaps in itertools.product((0, 1, 1003, 300_000), (False, True)):
        place = strided if gaps else lambda t: t.to(DEVICE)
        output = place(torch.zeros(size))
        requests = [dist.isend(place(values(torch.float32, size)), after), dist.irecv(output, before)]
        for request in requests:
            request.wait()
        same(output, values(torch.float32, size, rank=before), "isend and irecv")
        output = place(torch.zeros(size))
        operations = [
            dist.P2POp(dist.irecv, output, before),
            dist.P2POp(dist.isend, place(values(torch.float32, size)), after),
        ]
        for request in dist.batch_isend_irecv(operations):
            request.wait()
        same(output, values(torch.float32, size, rank=before), "batch_isend_irecv")
    if SIZE == 2 and sys.argv[1] == "free":
        if RANK == 0:
            dist.send(torch.ones(3, device=DEVICE), 1)
        else:
            output = torch.zeros(3, device=DEVICE)
            assert dist.recv(output) == 0
            assert output.tolist() == [1, 1, 1]


def groups() -> None:
    """Subgroups, objects, coalesced calls, and asynchronous results."""
    evens = dist.new_group(list(range(0, SIZE, 2)))
    first = dist.new_group([0, SIZE - 1])
    given = torch.full((4,), float(RANK), device=DEVICE)
    if RANK % 2 == 0:
        dist.all_reduce(given, group=evens)
        assert given.tolist() == [sum(range(0, SIZE, 2))] * 4
    if RANK in (0, SIZE - 1):
        given = torch.full((4,), float(RANK), device=DEVICE)
        dist.broadcast(given, SIZE - 1, group=first)
        assert given.tolist() == [SIZE - 1] * 4
    everything: list[object] = [None] * SIZE
    dist.all_gather_object(everything, {"rank": RANK, "text": "x" * RANK})
    assert everything == [{"rank": r, "text": "x" * r} for r in range(SIZE)]
    tensors = [torch.full((5,), float(RANK + i), device=DEVICE) for i in range(6)]
    with dist._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for i, tensor in enumerate(tensors):
        assert tensor.tolist() == [sum(r + i for r in range(SIZE))] * 5
    # Concurrent asynchronous calls: other work continues, and each result is complete after its wait().
    sums = [torch.full((100_000,), float(RANK + i), device=DEVICE) for i in range(10)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in sums]
    other = torch.ones(300, 300, device=DEVICE) @ torch.ones(300, 300, device=DEVICE)
    for i, (work, tensor) in enumerate(zip(works, sums, strict=True)):
        work.wait()
        assert (tensor == sum(r + i for r in range(SIZE))).all().item()
    assert (other == 300).all().item()
    dist.barrier()
    if sys.argv[1] == "free":  # with a bound device, torch creates no group without that device's backend
        dist.monitored_barrier(group=dist.new_group(backend="gloo"))


def large_tensors() -> None:
    """Up to 64 MiB."""
    given = torch.full((1 << 24,), float(RANK + 1), device=DEVICE)
    dist.all_reduce(given)
    assert (given == sum(range(1, SIZE + 1))).all().item()
    dist.broadcast(given, 0)
    parts = torch.empty(SIZE << 20, device=DEVICE)
    dist.all_gather_into_tensor(parts, torch.full((1 << 20,), float(RANK), device=DEVICE))
    assert parts.view(SIZE, -1)[:, -1].tolist() == list(range(SIZE))


start(bound=sys.argv[1] == "bound")
for check in (reductions, data_movement, uneven_splits, point_to_point, groups, large_tensors):
    check()
calls = hardpoint.counters()
assert set(calls["c10d::broadcast"]) == {sys.argv[3]}, calls
assert sys.argv[2] in calls["c10d::all_reduce"], calls
assert (set(calls["c10d::send"]) == {"vendor"}) == (sys.argv[1:] != ["bound", "cpu", "cpu"] and sys.argv[1] == "bound")
end()
