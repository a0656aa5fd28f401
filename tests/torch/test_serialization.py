"""torch.save and torch.load, pickle, and backend metadata of tensors."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from torch import nn


def saved(value, **options) -> io.BytesIO:
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


MAPS = {
    "none": (None, "sim:1"),
    "cpu": ("cpu", "cpu"),
    "sim": ("sim", "sim:0"),
    "sim:0": ("sim:0", "sim:0"),
    "device": (torch.device("sim:0"), "sim:0"),
    "dictionary": ({"sim:1": "sim:0"}, "sim:0"),
    "to the CPU by dictionary": ({"sim:1": "cpu"}, "cpu"),
    "function": (lambda storage, location: storage.sim(0), "sim:0"),
    "function that leaves it": (lambda storage, location: None, "sim:1"),
}


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("zipped", [True, False])
def test_map_location(name, weights_only, zipped):
    location, expected = MAPS[name]
    x = torch.arange(6.0, device="sim:1").reshape(2, 3)
    buffer = saved({"x": x, "n": 3}, _use_new_zipfile_serialization=zipped)
    loaded = torch.load(buffer, map_location=location, weights_only=weights_only)
    assert loaded["n"] == 3
    assert loaded["x"].device == torch.device(expected)
    assert loaded["x"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_cpu_checkpoint_to_the_device():
    loaded = torch.load(saved(torch.arange(3)), map_location="sim:1", weights_only=True)
    assert loaded.device == torch.device("sim:1")
    assert loaded.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.uint16,
        torch.float8_e5m2,
    ],
    ids=str,
)
def test_dtypes(dtype):
    x = (torch.arange(4) % 2).to(dtype).sim()
    loaded = torch.load(saved(x), weights_only=True)
    assert loaded.dtype == dtype
    assert loaded.device == torch.device("sim:0")
    assert loaded.tolist() == x.tolist()


def test_views_keep_sharing():
    base = torch.arange(8.0, device="sim")
    loaded = torch.load(saved([base, base[2:4], base.view(2, 4).t()]), weights_only=True)
    loaded[1].fill_(50)
    assert loaded[0].tolist() == [0, 1, 50, 50, 4, 5, 6, 7]
    assert loaded[2].stride() == (1, 4)
    assert loaded[2][2, 0].item() == 50


def test_parameters_and_gradients():
    parameter = nn.Parameter(torch.ones(2, device="sim"))
    frozen = nn.Parameter(torch.zeros(1, device="sim"), requires_grad=False)
    loaded = torch.load(saved([parameter, frozen, torch.ones(1, device="sim", requires_grad=True)]), weights_only=True)
    assert isinstance(loaded[0], nn.Parameter)
    assert [t.requires_grad for t in loaded] == [True, False, True]
    assert {t.device for t in loaded} == {torch.device("sim:0")}


def test_odd_tensors():
    odd = [
        torch.empty(0, device="sim"),
        torch.tensor(5, device="sim"),
        torch.tensor([1 + 2j], device="sim").conj(),
        torch.tensor([1 + 2j], device="sim").conj().imag,
    ]
    loaded = torch.load(saved(odd), weights_only=True)
    assert [t.tolist() for t in loaded] == [[], 5, [1 - 2j], [-2.0]]
    assert loaded[2].is_conj()
    assert loaded[3].is_neg()


def test_storages():
    storage = torch.arange(4, dtype=torch.uint8, device="sim").untyped_storage()
    loaded = torch.load(saved(storage), weights_only=False)
    assert loaded.device == torch.device("sim:0")
    assert loaded.tolist() == [0, 1, 2, 3]


def test_file_and_mmap(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"w": torch.arange(1000.0, device="sim")}, path)
    assert torch.load(path, weights_only=True)["w"][-1].item() == 999
    assert torch.load(path, weights_only=True, mmap=True, map_location="cpu")["w"][-1].item() == 999


def test_saving_waits_for_the_device():
    x = torch.zeros(1 << 20, device="sim")
    x.fill_(7)
    loaded = torch.load(saved(x), weights_only=True, map_location="cpu")
    assert loaded.min().item() == loaded.max().item() == 7


def test_device_that_does_not_exist():
    buffer = saved(torch.ones(2, device="sim:1"))
    with pytest.raises(RuntimeError, match=r"sim|device"):
        torch.load(buffer, map_location="sim:5", weights_only=True)


# ---- Pickle and deep copies


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
def test_pickle(protocol):
    x = torch.arange(6.0, device="sim:1").reshape(2, 3)[:, ::2]
    loaded = pickle.loads(pickle.dumps(x, protocol))
    assert loaded.device == torch.device("sim:1")
    assert loaded.tolist() == x.tolist()


def test_pickle_of_devices_and_modules():
    assert pickle.loads(pickle.dumps(torch.device("sim:1"))) == torch.device("sim:1")
    model = nn.Linear(2, 2).sim()
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.weight.device == torch.device("sim:0")
    assert loaded.weight.tolist() == model.weight.tolist()


def test_deepcopy_of_a_module():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).sim()
    twin = copy.deepcopy(model)
    x = torch.randn(4, 3).sim()
    assert model(x).tolist() == twin(x).tolist()
    with torch.no_grad():
        twin[0].weight.zero_()
    assert model[0].weight.abs().sum().item() > 0
    assert twin[1].running_mean.device == torch.device("sim:0")


def trained(device: str):
    torch.manual_seed(0)
    model = nn.Linear(3, 2).to(device)
    update = torch.optim.Adam(model.parameters(), lr=0.1)
    step(model, update)
    return model, update


def step(model, update) -> None:
    update.zero_grad()
    model(torch.ones(4, 3, device=model.weight.device)).square().sum().backward()
    update.step()


@pytest.mark.parametrize("target", ["cpu", "sim:0", "sim:1"])
def test_training_goes_on_from_a_checkpoint(target):
    model, update = trained("sim")
    buffer = saved({"model": model.state_dict(), "optimizer": update.state_dict()})
    loaded = torch.load(buffer, map_location=target, weights_only=True)
    other = nn.Linear(3, 2).to(target)
    other.load_state_dict(loaded["model"])
    resumed = torch.optim.Adam(other.parameters(), lr=0.1)
    resumed.load_state_dict(loaded["optimizer"])
    assert resumed.state[other.weight]["exp_avg"].device == torch.device(target)
    step(model, update)
    step(other, resumed)
    torch.testing.assert_close(other.weight.detach().cpu(), model.weight.detach().cpu())


def test_state_dict_from_another_device():
    model = nn.Linear(3, 2).sim()
    cpu = nn.Linear(3, 2)
    model.load_state_dict(cpu.state_dict())
    assert model.weight.device == torch.device("sim:0")
    assert model.weight.tolist() == cpu.weight.tolist()


# ---- Without Hardpoint


def test_loading_without_hardpoint(run_python, tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"w": torch.arange(3.0, device="sim"), "p": nn.Parameter(torch.ones(2, device="sim"))}, path)
    run_python(
        f"""
        import sys, torch
        assert "hardpoint" not in sys.modules
        for weights_only in (True, False):
            loaded = torch.load({str(path)!r}, map_location="cpu", weights_only=weights_only)
            assert loaded["w"].tolist() == [0, 1, 2], loaded
            assert loaded["p"].requires_grad and loaded["p"].tolist() == [1, 1]
            assert loaded["w"].device.type == "cpu"
        assert "hardpoint" not in sys.modules
        """,
        HARDPOINT_DEVICE=None,
    )


# ---- Metadata

METADATA = """
import sys
import torch
from hardpoint.torch import metadata
"""


@pytest.mark.slow
def test_metadata_round_trip(run_python, tmp_path):
    """In one process, and read in another; tensors without metadata stay without."""
    path = str(tmp_path / "checkpoint.pt")
    run_python(
        METADATA
        + f"""
import copy, pickle
x, plain = torch.arange(3.0, device="sim"), torch.ones(2, device="sim")
flags = {{"packed": True, "signed": False}}
metadata.set_metadata(x, flags)
assert metadata.get_metadata(x) == flags
assert metadata.get_metadata(plain) == {{}}
torch.save({{"x": x, "plain": plain, "host": torch.ones(1)}}, {path!r})
for weights_only in (True, False):
    loaded = torch.load({path!r}, weights_only=weights_only)
    assert metadata.get_metadata(loaded["x"]) == flags, loaded
    assert metadata.get_metadata(loaded["plain"]) == {{}}
    assert loaded["x"].tolist() == [0, 1, 2]
assert metadata.get_metadata(pickle.loads(pickle.dumps(x))) == flags
metadata.set_metadata(x, {{"other": True}})
assert metadata.get_metadata(x) == {{"other": True}}
metadata.set_metadata(x, {{}})
assert metadata.get_metadata(x) == {{}}
try:
    metadata.set_metadata(torch.ones(1), flags)
except RuntimeError as error:
    assert "metadata needs a tensor on sim, got one on cpu" in str(error)
else:
    raise AssertionError
"""
    )
    run_python(
        METADATA
        + f"""
loaded = torch.load({path!r}, weights_only=True)
assert metadata.get_metadata(loaded["x"]) == {{"packed": True, "signed": False}}
assert metadata.get_metadata(loaded["plain"]) == {{}}
assert torch.load({path!r}, map_location="cpu", weights_only=True)["x"].tolist() == [0, 1, 2]
"""
    )
    run_python(  # without importing the module, the tensors still load
        f"""
        import torch
        assert torch.load({path!r}, weights_only=True, map_location="cpu")["x"].tolist() == [0, 1, 2]
        """,
        HARDPOINT_DEVICE=None,
    )


def test_metadata_of_a_checkpoint_in_a_process_without_the_module(run_python, tmp_path):
    path = str(tmp_path / "checkpoint.pt")
    run_python(
        METADATA + f"x = torch.ones(2, device='sim'); metadata.set_metadata(x, {{'a': True}}); torch.save(x, {path!r})"
    )
    run_python(f"import torch; assert torch.load({path!r}, weights_only=True).tolist() == [1, 1]")
