"""Generators: seeds, states, forks, and recomputed dropout under checkpointing."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


def draw(device: str = "sim") -> list[float]:
    return torch.rand(5, device=device).tolist()


def test_manual_seed_reaches_every_device():
    torch.manual_seed(11)
    first = [draw("sim:0"), draw("sim:1")]
    assert draw("sim:0") != first[0]
    torch.manual_seed(11)
    assert [draw("sim:0"), draw("sim:1")] == first
    torch.manual_seed(12)
    assert draw("sim:0") != first[0]


def test_seed_functions():
    torch.sim.manual_seed(5)
    mine = draw()
    with torch.sim.device(1):
        torch.sim.manual_seed(6)
        assert torch.sim.initial_seed() == 6
    assert torch.sim.initial_seed() == 5
    torch.sim.manual_seed_all(5)
    assert draw("sim:0") == mine
    assert draw("sim:1") == mine


def test_manual_seed_of_one_device_leaves_the_other():
    torch.sim.manual_seed_all(1)
    expected = draw("sim:1")
    torch.sim.manual_seed_all(1)
    torch.sim.manual_seed(99)
    assert draw("sim:1") == expected


def test_random_seeds():
    torch.sim.manual_seed(1)
    torch.sim.seed()
    assert torch.sim.initial_seed() != 1
    torch.sim.seed_all()
    seeds = {g.initial_seed() for g in torch.sim.default_generators}
    assert len(seeds) == 1
    assert draw("sim:0") == draw("sim:1")


def test_torch_seed():
    chosen = torch.seed()
    assert torch.sim.initial_seed() == chosen


@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**64 - 1, -1])
def test_seeds_of_any_size(seed):
    torch.manual_seed(seed)
    first = draw()
    torch.manual_seed(seed)
    assert draw() == first
    assert torch.sim.initial_seed() == seed % 2**64


def test_default_generators():
    generators = torch.sim.default_generators
    assert len(generators) == 2
    assert [g.device for g in generators] == [torch.device("sim:0"), torch.device("sim:1")]
    generators[1].manual_seed(8)
    expected = draw("sim:1")
    generators[1].manual_seed(8)
    assert draw("sim:1") == expected


# ---- States


@pytest.mark.parametrize("device", [None, 0, 1, "sim:1", torch.device("sim:0")], ids=str)
def test_state(device):
    place = f"sim:{torch.device(device).index if isinstance(device, (str, torch.device)) else device or 0}"
    state = torch.sim.get_rng_state() if device is None else torch.sim.get_rng_state(device)
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    first = draw(place)
    assert draw(place) != first
    torch.sim.set_rng_state(state) if device is None else torch.sim.set_rng_state(state, device)
    assert draw(place) == first


def test_state_in_the_middle():
    draw()
    state = torch.sim.get_rng_state()
    rest = [draw() for _ in range(3)]
    torch.sim.set_rng_state(state)
    assert [draw() for _ in range(3)] == rest


def test_states_of_all():
    states = torch.sim.get_rng_state_all()
    first = [draw("sim:0"), draw("sim:1")]
    torch.sim.set_rng_state_all(states)
    assert [draw("sim:0"), draw("sim:1")] == first


@pytest.mark.parametrize(
    "wrong",
    [
        torch.zeros(3, dtype=torch.uint8),
        torch.zeros(16),
        torch.zeros(32, dtype=torch.uint8)[::2],
        torch.get_rng_state(),
    ],
    ids=["short", "float", "strided", "of the CPU"],
)
def test_wrong_state(wrong):
    with pytest.raises(RuntimeError, match="state of a sim generator"):
        torch.sim.set_rng_state(wrong)


# ---- Separate generators


@pytest.mark.parametrize("device", ["sim", "sim:1", torch.device("sim:1")], ids=str)
def test_generator(device):
    generator = torch.Generator(device=device)
    assert generator.device == torch.device("sim", torch.device(device).index or 0)
    assert generator.manual_seed(4) is generator
    assert generator.initial_seed() == 4
    first = torch.randn(4, device=device, generator=generator)
    generator.manual_seed(4)
    again = torch.randn(4, device=device, generator=generator)
    assert first.tolist() == again.tolist()


def test_generator_is_apart_from_the_default():
    torch.manual_seed(0)
    expected = draw()
    torch.manual_seed(0)
    generator = torch.Generator(device="sim").manual_seed(3)
    torch.rand(100, device="sim", generator=generator)
    assert draw() == expected


def test_generators_with_one_seed_agree():
    one, two = (torch.Generator(device="sim").manual_seed(9) for _ in range(2))
    for call in (
        lambda g: torch.randperm(10, device="sim", generator=g),
        lambda g: torch.empty(5, device="sim").normal_(generator=g),
        lambda g: torch.bernoulli(torch.full((5,), 0.5, device="sim"), generator=g),
        lambda g: torch.multinomial(torch.ones(5, device="sim"), 3, generator=g),
        lambda g: torch.randint(100, (5,), device="sim", generator=g),
    ):
        assert call(one).tolist() == call(two).tolist()


def test_generator_state_and_clone():
    generator = torch.Generator(device="sim").manual_seed(2)
    torch.rand(3, device="sim", generator=generator)
    twin = generator.clone_state()
    state = generator.get_state()
    expected = torch.rand(3, device="sim", generator=generator).tolist()
    assert torch.rand(3, device="sim", generator=twin).tolist() == expected
    generator.set_state(state)
    assert torch.rand(3, device="sim", generator=generator).tolist() == expected
    generator.seed()
    assert torch.rand(3, device="sim", generator=generator).tolist() != expected


def test_generator_offset():
    generator = torch.Generator(device="sim").manual_seed(2)
    assert generator.get_offset() == 0
    torch.rand(3, device="sim", generator=generator)
    moved = generator.get_offset()
    assert moved > 0
    expected = torch.rand(3, device="sim", generator=generator).tolist()
    generator.set_offset(moved)
    assert torch.rand(3, device="sim", generator=generator).tolist() == expected


def test_generator_of_another_device():
    with pytest.raises(RuntimeError, match="Expected a 'sim' device type for generator but found 'cpu'"):
        torch.rand(2, device="sim", generator=torch.Generator())
    with pytest.raises(RuntimeError, match="cpu"):
        torch.rand(2, generator=torch.Generator(device="sim"))


# ---- fork_rng


def test_fork_rng():
    torch.manual_seed(0)
    expected = [draw("sim:0"), draw("sim:1"), torch.rand(2).tolist()]
    torch.manual_seed(0)
    with torch.random.fork_rng(devices=range(2), device_type="sim"):
        torch.manual_seed(77)
        for device in ("sim:0", "sim:1", "cpu"):
            draw(device)
    assert [draw("sim:0"), draw("sim:1"), torch.rand(2).tolist()] == expected


def test_fork_rng_of_one_device():
    torch.manual_seed(0)
    expected = draw("sim:1")
    torch.manual_seed(0)
    with torch.random.fork_rng(devices=[1], device_type="sim"):
        draw("sim:1")
    assert draw("sim:1") == expected


# ---- Checkpointing


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("device", ["sim:0", "sim:1"])
def test_dropout_under_checkpointing(use_reentrant, device):
    layer = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.5)).to(device)
    x = torch.randn(8, 16).to(device).requires_grad_()

    def gradients(run):
        torch.manual_seed(21)
        layer.zero_grad()
        x.grad = None
        out = run(x)
        torch.rand(3, device=device)  # later draws must not matter
        out.square().sum().backward()
        return [x.grad.tolist(), layer[0].weight.grad.tolist(), out.tolist()]

    assert gradients(lambda t: checkpoint(layer, t, use_reentrant=use_reentrant)) == gradients(layer)


def test_checkpoint_leaves_the_state_as_without():
    layer = torch.nn.Dropout(0.5)
    x = torch.ones(16, device="sim", requires_grad=True)
    torch.manual_seed(1)
    layer(x).sum().backward()
    expected = draw()
    torch.manual_seed(1)
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    assert draw() == expected


def test_checkpoint_sequential():
    model = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.3)) for _ in range(4)))
    model.sim()
    x = torch.randn(4, 8).sim()
    grads = []
    for run in (model, lambda t: checkpoint_sequential(model, 2, t, use_reentrant=False)):
        torch.manual_seed(5)
        model.zero_grad()
        run(x).sum().backward()
        grads.append([p.grad.tolist() for p in model.parameters()])
    assert grads[0] == grads[1]


@pytest.mark.parametrize("device", ["sim:0", "sim:1", "cpu"])
def test_operators_that_keep_the_state(device: str):
    torch.manual_seed(123)
    expected = [draw(device), draw(device)]
    torch.manual_seed(123)
    save, replay = torch._prims.rng_prims.run_and_save_rng_state, torch._prims.rng_prims.run_with_rng_state
    runs = [save(torch.rand, 5, device=device) for _ in expected]
    assert [out.tolist() for _, out in runs] == expected
    following = draw(device)
    torch.manual_seed(123)
    assert [replay(state, torch.rand, 5, device=device).tolist() for state, _ in runs] == expected
    assert [draw(device) for _ in range(3)] == [*expected, following]
    states = [state for state, _ in runs]
    assert [state.device.type for state in states] == ["cpu"] * 2
    x = torch.ones(40, device=device)
    out = replay(states[0], torch.nn.functional.dropout, x)
    assert torch.equal(replay(states[0], torch.nn.functional.dropout, x), out)


@pytest.mark.parametrize("device", ["sim", "cpu"])
def test_compiled_checkpoints_draw_the_same_mask(device: str):
    @torch.compile(backend="aot_eager")
    def compute(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda x: torch.nn.functional.dropout(torch.sigmoid(x), 0.5), x, use_reentrant=False)

    x = torch.randn(64, device=device, requires_grad=True)
    out = compute(x)
    out.sum().backward()
    s = torch.sigmoid(x.detach())
    torch.testing.assert_close(x.grad, (out.detach() != 0) * 2 * s * (1 - s))
    torch._dynamo.reset()


@pytest.mark.skipif(not hasattr(torch.Generator, "philox_state"), reason="new in torch 2.14")
def test_philox_state():
    generator = torch.Generator("sim").manual_seed(-3)
    seed, offset, inside = generator.philox_state(6)  # two blocks of four values
    assert [t.device.type for t in (seed, offset, inside)] == ["cpu"] * 3
    assert (seed.tolist(), offset.tolist(), inside.tolist()) == ([-3], [0], [0])
    assert generator.philox_state(0)[1].tolist() == generator.philox_state(1)[1].tolist() == [8]
    assert generator.philox_state(1)[1].tolist() == [12]
    torch.rand(5, device="sim", generator=generator)  # continues behind what was reserved
    assert generator.philox_state(1)[1].item() > 16
