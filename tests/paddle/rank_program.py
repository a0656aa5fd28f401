"""Program of one rank in test_paddle_distributed.py: ``rank_program.py FUNCTION SEED``."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import paddle
import paddle.distributed as dist
from paddle.distributed import ReduceOp, fleet

sys.path.append(str(Path(__file__).parents[2] / "examples"))

REDUCTIONS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    ReduceOp.SUM: lambda all_: all_.sum(0),
    ReduceOp.MAX: lambda all_: all_.max(0),
    ReduceOp.MIN: lambda all_: all_.min(0),
    ReduceOp.PROD: lambda all_: all_.prod(0),
}
DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64"]
SEED = int(sys.argv[2])


class Ranks:
    """Generates the data of all ranks on every rank."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.cases = 0

    def arrays(self, shape: tuple[int, ...], *, whole: bool = True) -> np.ndarray:
        """One array per rank; integers are small, so that every dtype can hold their sums and products."""
        self.cases += 1
        rng = np.random.default_rng([SEED, self.cases])
        shape = (self.size, *shape)
        return rng.integers(1, 4, shape).astype("float64") if whole else rng.standard_normal(shape)

    def tensor(self, arrays: np.ndarray, dtype: str = "float32") -> paddle.Tensor:
        return paddle.to_tensor(arrays[self.rank].astype("float64")).astype(dtype)


def assert_same(tensor: paddle.Tensor, expected: np.ndarray, tolerance: float = 0.0) -> None:
    found = tensor.astype("float64").numpy()
    assert found.shape == expected.shape, (found.shape, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def collective_path() -> str:
    """How the default group of this process communicates."""
    group = dist.get_group()
    return group.process_group.get_comm_name(dist.get_rank()).split(", ")[-1]


def reductions(ranks: Ranks) -> None:
    for dtype in DTYPES:
        for op, expected in REDUCTIONS.items():
            for shape in ((1,), (5, 7), (1003,)) if dtype == "float32" else ((19,),):
                all_ = ranks.arrays(shape)
                mine = ranks.tensor(all_, dtype)
                dist.all_reduce(mine, op=op)
                assert_same(mine, expected(all_))
                mine, root = ranks.tensor(all_, dtype), ranks.cases % ranks.size
                dist.reduce(mine, dst=root, op=op)
                if ranks.rank == root:
                    assert_same(mine, expected(all_))
                parts = ranks.arrays((ranks.size, 4))
                out = paddle.zeros([4], dtype)
                dist.reduce_scatter(out, list(ranks.tensor(parts, dtype)), op=op)
                assert_same(out, expected(parts)[ranks.rank])
    truths = ranks.arrays((50,)) > 2
    for op, expected_truth in (
        (ReduceOp.MAX, truths.any(0)),
        (ReduceOp.MIN, truths.all(0)),
        (ReduceOp.SUM, truths.any(0)),
    ):
        truth = paddle.to_tensor(truths[ranks.rank])
        dist.all_reduce(truth, op=op)
        assert (truth.numpy() == expected_truth).all()
    # Several MiB, on the compute stream and on another.
    all_ = ranks.arrays((3, 300_001), whole=False)
    mine = ranks.tensor(all_) * 2
    dist.stream.all_reduce(mine, use_calc_stream=True)
    assert_same(mine - 1, all_.sum(0) * 2 - 1, 1e-5)
    mine = ranks.tensor(all_) * 2
    task = dist.all_reduce(mine, sync_op=False)
    task.wait()
    assert_same(mine - 1, all_.sum(0) * 2 - 1, 1e-5)


def data_movement(ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    for dtype in [*DTYPES, "bool", "complex64"]:
        for shape in ((1,), (3, 5), (700_001,)) if dtype == "float32" else ((9,),):
            all_ = ranks.arrays(shape) if dtype != "bool" else (ranks.arrays(shape) > 2).astype("float64")
            root = ranks.cases % size
            mine = ranks.tensor(all_, dtype)
            dist.broadcast(mine, src=root)
            assert_same(mine, all_[root])
            if dtype in ("int16", "complex64"):  # Paddle cannot split these
                continue
            gathered: list[paddle.Tensor] = []
            dist.all_gather(gathered, ranks.tensor(all_, dtype))
            assert_same(paddle.stack([one.astype("float64") for one in gathered]), all_)
    for shape in ((1,), (4, 3), (100_000,)):
        parts = ranks.arrays((size, *shape))  # [sender][receiver]
        root = ranks.cases % size
        received: list[paddle.Tensor] = []
        dist.alltoall(received, list(ranks.tensor(parts)))
        assert_same(paddle.stack(received), parts[:, rank])
        out = paddle.zeros([size, *shape])
        dist.alltoall_single(out, ranks.tensor(parts))
        assert_same(out, parts[:, rank])
        out = paddle.zeros(list(shape))
        dist.scatter(out, list(ranks.tensor(parts)) if rank == root else None, src=root)
        assert_same(out, parts[root, rank])
        collected: list[paddle.Tensor] | None = [] if rank == root else None
        dist.gather(ranks.tensor(parts[:, 0]), collected, dst=root)
        if collected is not None:
            assert_same(paddle.stack(collected), parts[:, 0])
    # Rank i sends i + j + 1 rows to rank j.
    rows = [rank + other + 1 for other in range(size)]
    out = paddle.zeros([sum(rows), 2])
    dist.alltoall_single(out, paddle.full([sum(rows), 2], float(rank)), rows, rows)
    assert_same(out, np.repeat(np.arange(size, dtype="float64"), rows)[:, None].repeat(2, 1))


def point_to_point(ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    following, before = (rank + 1) % size, (rank - 1) % size
    for shape in ((1,), (600, 1000)):
        all_ = ranks.arrays(shape)
        got = paddle.zeros(list(shape))
        if rank == 0:
            dist.send(ranks.tensor(all_), dst=following)
            dist.recv(got, src=before)
        else:
            dist.recv(got, src=before)
            dist.send(ranks.tensor(all_), dst=following)
        assert_same(got, all_[before])
        # All send first; a sent buffer may be overwritten.
        mine, got = ranks.tensor(all_), paddle.zeros(list(shape))
        tasks = [dist.isend(mine, dst=following), dist.irecv(got, src=before)]
        for task in tasks:
            task.wait()
        mine.zero_()
        assert_same(got, all_[before])
        mine, got = ranks.tensor(all_), paddle.zeros(list(shape))
        batch = [dist.P2POp(dist.isend, mine, following), dist.P2POp(dist.irecv, got, before)]
        for task in dist.batch_isend_irecv(batch):
            task.wait()
        assert_same(got, all_[before])


def objects_and_groups(ranks: Ranks) -> None:
    rank, size = ranks.rank, ranks.size
    objects: list[object] = []
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 100 * rank})
    assert objects == [{"rank": other, "text": "x" * 100 * other} for other in range(size)]
    spoken: list[object] = [f"from {rank}"]
    dist.broadcast_object_list(spoken, src=size - 1)
    assert spoken == [f"from {size - 1}"]
    dist.barrier()
    everyone = dist.new_group(list(range(size))[::-1])
    all_ = ranks.arrays((6,))
    mine = ranks.tensor(all_)
    dist.all_reduce(mine, group=everyone)
    assert_same(mine, all_.sum(0))
    # Every second rank; with two ranks, groups of one.
    groups = [dist.new_group(list(range(start, size, 2))) for start in range(2)]
    if size > 2:
        members = list(range(rank % 2, size, 2))
        mine = ranks.tensor(all_)
        dist.all_reduce(mine, group=groups[rank % 2])
        assert_same(mine, all_[members].sum(0))
        mine = ranks.tensor(all_)
        dist.broadcast(mine, src=members[-1], group=groups[rank % 2])
        assert_same(mine, all_[members[-1]])
    dist.barrier()


def collectives() -> None:
    """Every function of paddle.distributed against numpy."""
    dist.init_parallel_env()
    ranks = Ranks()
    reductions(ranks)
    data_movement(ranks)
    point_to_point(ranks)
    objects_and_groups(ranks)
    print(f"{ranks.cases} cases {collective_path()}")


class GPT(paddle.nn.Layer):
    """A small transformer over 32 tokens."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.tokens, self.places = paddle.nn.Embedding(32, width), paddle.nn.Embedding(12, width)
        self.blocks = paddle.nn.LayerList(
            paddle.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, activation="gelu") for _ in range(2)
        )
        self.head = paddle.nn.Linear(width, 32)

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        mask = paddle.triu(paddle.full([x.shape[1], x.shape[1]], -1e9), 1)
        x = self.tokens(x) + self.places(paddle.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def problem(name: str) -> tuple[paddle.nn.Layer, np.ndarray, np.ndarray]:
    """A net with inputs and targets."""
    import digits_paddle

    if name == "digits":
        images, labels, _, _ = digits_paddle.digits()
        return digits_paddle.LeNet(), images, labels
    # Each token determines the next, so that the net can learn.
    text = np.empty((960, 13), "int64")
    text[:, 0] = np.random.default_rng(SEED).integers(0, 32, 960)
    for place in range(12):
        text[:, place + 1] = (5 * text[:, place] + 3) % 32
    return GPT(), text[:, :-1], text[:, 1:]


def losses_of(
    name: str, wrap: Callable[[paddle.nn.Layer], paddle.nn.Layer], rank: int, size: int
) -> tuple[list[float], np.ndarray]:
    """Train on this rank's share of batches of 64; returns the mean losses and a weight."""
    net, inputs, targets = problem(name)
    rng = np.random.default_rng(SEED)
    for weight in net.parameters():
        weight.set_value((rng.standard_normal(weight.shape) * 0.1).astype("float32"))
    model = wrap(net)
    optimizer = paddle.optimizer.Momentum(0.05, parameters=model.parameters())
    losses = []
    for step in range(15):
        batch = np.arange(step * 64, step * 64 + 64)[rank::size]
        scores = model(paddle.to_tensor(inputs[batch]))
        wanted = paddle.to_tensor(targets[batch])
        loss = paddle.nn.functional.cross_entropy(scores.reshape([-1, scores.shape[-1]]), wanted.flatten())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        mean = loss.detach()
        if size > 1:
            dist.all_reduce(mean)
        losses.append(float(mean) / size)
    return losses, net.parameters()[0].numpy()


def compare_training(wrap: Callable[[paddle.nn.Layer], paddle.nn.Layer]) -> None:
    ranks = Ranks()
    for name in ("digits", "gpt"):
        losses, weight = losses_of(name, wrap, ranks.rank, ranks.size)
        alone, alone_weight = losses_of(name, lambda net: net, 0, 1)
        np.testing.assert_allclose(losses, alone, atol=1e-4)
        np.testing.assert_allclose(weight, alone_weight, atol=1e-4)
        # Not the losses: every step has another batch, and so few steps need not lower them.
        initial = np.random.default_rng(SEED).standard_normal(weight.shape) * 0.1
        assert not np.allclose(weight, initial, atol=1e-6), "the weights were not trained"
    print(f"trained on {paddle.get_device()} {collective_path()}")


def data_parallel() -> None:
    """DataParallel equals one process with the whole batch."""
    dist.init_parallel_env()
    compare_training(paddle.DataParallel)


def fleet_data_parallel() -> None:
    """The same with fleet."""
    fleet.init(is_collective=True)
    compare_training(fleet.distributed_model)


def hybrid(kind: str) -> None:
    """The other kinds of parallelism in fleet, against the CPU."""
    size, rank = int(os.environ["PADDLE_TRAINERS_NUM"]), int(os.environ["PADDLE_TRAINER_ID"])
    rng = np.random.default_rng(SEED)
    inputs, targets = (rng.standard_normal((8, width)).astype("float32") for width in (16, 8))
    first, second = (rng.standard_normal(shape).astype("float32") * 0.2 for shape in ((16, 32), (32, 8)))

    def linear(weight: np.ndarray) -> paddle.nn.Layer:
        layer = paddle.nn.Linear(*weight.shape, bias_attr=False)
        layer.weight.set_value(weight)
        return layer

    def error(outputs: paddle.Tensor, wanted: paddle.Tensor) -> paddle.Tensor:
        return ((outputs - wanted) ** 2).mean()

    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": 1, f"{kind}_degree": size}
    strategy.pipeline_configs = {"accumulate_steps": 4, "micro_batch_size": 2}
    fleet.init(is_collective=True, strategy=strategy)
    if kind == "mp":
        width = 32 // size
        columns = fleet.meta_parallel.ColumnParallelLinear(16, 32, gather_output=False, has_bias=False)
        rows = fleet.meta_parallel.RowParallelLinear(32, 8, input_is_parallel=True, has_bias=False)
        columns.weight.set_value(first[:, rank * width : (rank + 1) * width])
        rows.weight.set_value(second[rank * width : (rank + 1) * width])
        net = paddle.nn.Sequential(columns, paddle.nn.ReLU(), rows)
    else:
        layers = [linear(first), paddle.nn.ReLU(), linear(second)]
        net = paddle.nn.Sequential(*layers)
        if kind == "pp":
            net = fleet.meta_parallel.PipelineLayer(layers=layers, num_stages=size, loss_fn=error)
    optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
    model, optimizer = fleet.distributed_model(net), fleet.distributed_optimizer(optimizer)
    share = slice(rank, None, size) if kind == "sharding" else slice(None)
    batch = paddle.to_tensor(inputs[share]), paddle.to_tensor(targets[share])
    losses = []
    for _ in range(4):
        if kind == "pp":
            losses.append(model.train_batch(batch, optimizer).item())
            continue
        loss = error(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        if kind == "sharding":
            loss = loss.detach()
            dist.all_reduce(loss)
            loss = loss / size
        losses.append(loss.item())

    paddle.set_device("cpu")
    expected = []
    net = paddle.nn.Sequential(linear(first), paddle.nn.ReLU(), linear(second))
    optimizer = paddle.optimizer.AdamW(0.01, parameters=net.parameters())
    for _ in range(4):
        loss = error(net(paddle.to_tensor(inputs)), paddle.to_tensor(targets))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        expected.append(loss.item())
    np.testing.assert_allclose(losses, expected, atol=1e-5)
    print(f"{kind} {losses[0]:.6f}")


def sharded_losses(level: str) -> None:
    """Sharding of gradients ("os_g") or also of parameters ("p_g_os"), against one process with the whole batch."""
    from paddle.distributed.sharding import group_sharded_parallel

    ranks = Ranks()
    rng = np.random.default_rng(SEED)
    inputs, targets = (rng.standard_normal((8, width)).astype("float32") for width in (16, 8))
    weights = [rng.standard_normal(shape).astype("float32") * 0.2 for shape in ((16, 64), (64, 8))]

    def train(size: int, rank: int) -> list[float]:
        layers: list[paddle.nn.Layer] = [paddle.nn.Linear(*weight.shape) for weight in weights]
        for layer, weight in zip(layers, weights, strict=True):
            layer.weight.set_value(weight)
        model = paddle.nn.Sequential(layers[0], paddle.nn.ReLU(), layers[1])
        optimizer = paddle.optimizer.AdamW(0.01, parameters=model.parameters())
        if size > 1:
            # Smaller parameters than segment_size are not split in stage 3.
            model, optimizer, _ = group_sharded_parallel(model, optimizer, level, segment_size=256)
        x, y = (paddle.to_tensor(array[rank::size]) for array in (inputs, targets))
        losses = []
        for _ in range(4):
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            optimizer.clear_grad()
            mean = loss.detach()
            if size > 1:
                dist.all_reduce(mean)
            losses.append(float(mean) / size)
        return losses

    losses = train(ranks.size, ranks.rank)
    np.testing.assert_allclose(losses, train(1, 0), atol=1e-5)
    print(f"{level} {losses[0]:.6f}")


def parallel_and_sharded() -> None:
    """Tensor parallelism, then stages 2 and 3 of sharding, in one set of processes."""
    hybrid("mp")
    paddle.set_device(f"sim:{dist.get_rank()}")
    sharded_losses("os_g")
    sharded_losses("p_g_os")


def failure(kind: str) -> None:
    """The last rank misbehaves; the others report it, and every rank exits."""
    dist.init_parallel_env()
    ranks = Ranks()
    odd = ranks.rank == ranks.size - 1
    mine = paddle.ones([4])
    dist.all_reduce(mine)
    assert_same(mine, np.full(4, float(ranks.size)))
    if odd and kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if odd and kind == "late":
        time.sleep(9)
        return
    start = time.perf_counter()
    try:
        mine = paddle.ones([6 if odd else 4])
        dist.all_reduce(mine)
        mine.numpy()
    except Exception as error:
        print(f"after {time.perf_counter() - start:.1f} s: {error}")
    else:
        raise AssertionError("nothing was raised")


if __name__ == "__main__":
    name, _, argument = sys.argv[1].partition(":")
    globals()[name](*[argument] if argument else [])
