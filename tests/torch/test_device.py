"""Names, the current device, and the modules torch.sim and torch.accelerator."""

from __future__ import annotations

import threading

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence


def test_backend_name():
    assert torch._C._get_privateuse1_backend_name() == "sim"
    assert str(torch.device("sim")) == "sim"
    assert str(torch.device("sim:1")) == "sim:1"
    assert repr(torch.device("sim", 1)) == "device(type='sim', index=1)"
    assert torch.device("sim:1").type == "sim"


def test_tensor_shows_the_device_name():
    x = torch.ones(2, device="sim:1")
    assert repr(x) == "tensor([1., 1.], device='sim:1')"
    assert x.type() == "torch.sim.FloatTensor"
    assert "device=sim:1" in repr(x.untyped_storage())
    assert x.device == torch.device("sim", 1)
    assert x.get_device() == 1


def test_messages_never_say_privateuseone():
    with pytest.raises(RuntimeError) as mixed:
        torch.ones(2, device="sim") + torch.ones(2)
    with pytest.raises(TypeError) as converted:
        torch.ones(2, device="sim").numpy()
    for error in (mixed, converted):
        assert "sim:0" in str(error.value)
        assert "privateuse" not in str(error.value).lower()


@pytest.mark.parametrize("index", [2, 7, 100])
def test_invalid_index(index):
    with pytest.raises(RuntimeError, match=rf"device sim:{index} does not exist: sim has 2 device"):
        torch.ones(1, device=f"sim:{index}")
    with pytest.raises(RuntimeError, match=f"sim:{index}"):
        torch.sim.set_device(index)
    with pytest.raises(RuntimeError, match=f"sim:{index}"):
        torch.accelerator.set_device_index(index)
    assert torch.sim.current_device() == 0


def test_wrong_device_type_argument():
    with pytest.raises(ValueError, match="expected a sim device, got cpu"):
        torch.sim.set_device("cpu")


# ---- The current device


@pytest.mark.parametrize("argument", [1, "sim:1", torch.device("sim:1")], ids=str)
def test_set_device(argument):
    torch.sim.set_device(argument)
    assert torch.sim.current_device() == 1
    assert torch.accelerator.current_device_index() == 1
    assert torch.empty(1, device="sim").device.index == 1


@pytest.mark.parametrize("context", [lambda: torch.sim.device(1), lambda: torch.accelerator.device_index(1)])
def test_device_context(context):
    with context():
        assert torch.empty(1, device="sim").device.index == 1
        with torch.sim.device(0):
            assert torch.sim.current_device() == 0
        assert torch.sim.current_device() == 1
    assert torch.sim.current_device() == 0


def test_device_context_is_left_on_error():
    with pytest.raises(KeyError), torch.sim.device(1):
        raise KeyError
    assert torch.sim.current_device() == 0


def test_device_of():
    with torch.sim.device_of(torch.ones(1, device="sim:1")):
        assert torch.sim.current_device() == 1
        with torch.sim.device_of(torch.ones(1)):
            assert torch.sim.current_device() == 1
    assert torch.sim.current_device() == 0


def test_torch_device_as_context():
    with torch.device("sim:1"):
        assert torch.ones(2).device == torch.device("sim:1")
        assert torch.nn.Linear(2, 2).weight.device == torch.device("sim:1")
        assert torch.tensor([1.0]).device == torch.device("sim:1")
    assert torch.ones(2).device.type == "cpu"


def test_default_device():
    torch.set_default_device("sim:1")
    try:
        assert torch.get_default_device() == torch.device("sim:1")
        assert torch.arange(3).device == torch.device("sim:1")
        assert (torch.arange(3) * 2).tolist() == [0, 2, 4]
    finally:
        torch.set_default_device(None)
    assert torch.arange(3).device.type == "cpu"


def test_current_device_belongs_to_the_thread():
    seen = []
    torch.sim.set_device(1)
    thread = threading.Thread(target=lambda: seen.append(torch.sim.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    assert torch.sim.current_device() == 1


def test_operators_run_on_their_tensors_device():
    a, b = torch.ones(3, device="sim:1"), torch.full((3,), 2.0, device="sim:1")
    assert torch.sim.current_device() == 0
    for result in (a + b, a.exp(), torch.cat([a, b]), a.new_zeros(2), torch.empty_like(a), torch.rand_like(a)):
        assert result.device == torch.device("sim:1")
    assert torch.sim.current_device() == 0
    assert (a + b).tolist() == [3.0, 3.0, 3.0]


# ---- torch.sim and torch.accelerator


def test_counts_and_availability():
    assert torch.sim.is_available() is True
    assert torch.sim.device_count() == 2
    assert torch.sim.is_initialized()
    torch.sim.init()
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("sim")
    assert torch.get_device_module("sim") is torch.sim
    assert torch.get_device_module() is torch.sim


@pytest.mark.parametrize("argument", [None, 0, 1, "sim:1", torch.device("sim:0")], ids=str)
def test_properties(argument):
    properties = torch.sim.get_device_properties(argument)
    assert properties.name == "Hardpoint simulated accelerator"
    assert properties.total_memory == torch.sim.mem_get_info(argument)[1] > 0
    assert properties.compute_units >= 1
    assert torch.sim.get_device_name(argument) == properties.name
    assert torch.sim.get_device_capability(argument) == (properties.major, properties.minor)


def test_peer_access():
    assert torch.sim.can_device_access_peer(0, 1)
    assert not torch.sim.can_device_access_peer(1, "sim:1")


def test_device_capability_tells_dense_types_only():
    capability = torch.accelerator.get_device_capability("sim")
    supported = capability["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= supported
    assert torch.qint8 not in supported


# ---- Generated methods


@pytest.mark.parametrize(("arguments", "index"), [((), 0), ((1,), 1), (("sim:1",), 1), ((torch.device("sim:1"),), 1)])
def test_tensor_method(arguments, index):
    x = torch.arange(4.0)
    moved = x.sim(*arguments)
    assert moved.device == torch.device("sim", index)
    assert moved.is_sim
    assert not x.is_sim
    assert moved.tolist() == [0, 1, 2, 3]
    assert moved.sim(index) is moved or moved.sim(index).data_ptr() == moved.data_ptr()


def test_tensor_method_non_blocking():
    assert torch.arange(3).sim(non_blocking=True).tolist() == [0, 1, 2]


def test_module_method():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    weight = model[0].weight.detach().clone()
    assert model.sim(1) is model
    assert {t.device for t in (*model.parameters(), *model.buffers())} == {torch.device("sim:1")}
    assert isinstance(model[0].weight, torch.nn.Parameter)
    torch.testing.assert_close(model[0].weight.detach().cpu(), weight, rtol=0, atol=0)
    assert model.cpu()[0].weight.device.type == "cpu"


def test_storage_methods():
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    moved = storage.sim()
    assert moved.device == torch.device("sim:0")
    assert moved.is_sim
    assert not storage.is_sim
    assert moved.cpu().tolist() == [0, 1, 2, 3]
    assert storage.sim(1).device == torch.device("sim:1")


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_typed_storage_methods():
    typed = torch.arange(3.0).storage().sim()
    assert typed.is_sim
    assert typed.dtype == torch.float32
    assert typed.tolist() == [0, 1, 2]


def test_packed_sequence():
    packed = pack_sequence([torch.arange(3.0), torch.arange(2.0)])
    moved = packed.sim()
    assert moved.is_sim
    assert not packed.is_sim
    assert moved.data.device.type == "sim"
    assert moved.data.tolist() == [0, 0, 1, 1, 2]
    assert moved.batch_sizes.device.type == "cpu"


# ---- Factories


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda d: torch.zeros(2, device=d), [0, 0]),
        (lambda d: torch.full((2,), 7, device=d), [7, 7]),
        (lambda d: torch.arange(2, 8, 3, device=d), [2, 5]),
        (lambda d: torch.linspace(0, 1, 3, device=d), [0, 0.5, 1]),
        (lambda d: torch.eye(2, device=d)[0], [1, 0]),
        (lambda d: torch.tensor([3, 4], device=d), [3, 4]),
        (lambda d: torch.as_tensor([5], device=d), [5]),
        (lambda d: torch.tril_indices(2, 2, device=d)[0], [0, 1, 1]),
        (lambda d: torch.scalar_tensor(4, device=d), 4),
    ],
)
@pytest.mark.parametrize("place", ["sim", "sim:1"])
def test_factories(make, expected, place):
    made = make(place)
    assert made.device == torch.device("sim", torch.device(place).index or 0)
    assert made.tolist() == expected
