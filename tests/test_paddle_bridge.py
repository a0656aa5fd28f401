"""A Paddle plug-in's library as a PyTorch device, without Paddle."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plugin_tools import ROOT, ask_python, compile_c, environment

# Most tests start a process that imports torch: too slow for make quick.
pytestmark = pytest.mark.slow

SOURCE = ROOT / "tests" / "fixtures" / "paddle_plugin.cpp"
CXX = os.environ.get("CXX") or shutil.which("c++") or "g++"


def build(folder: Path, init: str = "", *flags: str) -> Path:
    """Compile tests/fixtures/paddle_plugin.cpp with a line that breaks it."""
    folder.mkdir(exist_ok=True)
    output = folder / "libpaddle_test.so"
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-shared", "-fPIC", "-pthread"]
    include = f"-I{ROOT / 'plugins' / 'paddle_bridge'}"
    command = [CXX, *strict, include, f"-DINIT={init}", *flags, "-o", str(output), str(SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("paddle") / "right")


def ask(code: str, path: Path, cache: Path, **variables: str) -> Any:
    return ask_python(code, cache, HARDPOINT_PADDLE_PLUGIN=str(path), **variables)


# ---- A valid plug-in

USE = """
import sys, warnings
warnings.simplefilter("ignore", UserWarning)
import torch, hardpoint
name = torch._C._get_privateuse1_backend_name()
module = getattr(torch, name)

def train(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3))
    x, y = torch.randn(8, 1, 8, 8), torch.randint(3, (8,))
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]

def streams():
    # Copies only: a missing synchronization would return stale bytes.
    first, second = module.Stream(), module.Stream()
    data = torch.randint(0, 256, (1 << 16,), dtype=torch.uint8)
    there = torch.empty(1 << 16, dtype=torch.uint8, device=name)
    event = torch.Event(name)
    with first:
        for _ in range(5):
            there.copy_(torch.zeros_like(data))
        there.copy_(data, non_blocking=True)
        event.record(first)
    with second:
        second.wait_event(event)
        copy = there.clone()
    second.synchronize()
    event.synchronize()
    assert event.query() and second.query() and torch.Event(name).query()
    return torch.equal(copy.cpu(), data)

a, b = torch.randn(3, 4), torch.randn(4)
x = torch.ones(2, device=name)
(cpu_losses, cpu), (losses, trained) = train("cpu"), train(name)
torch.testing.assert_close(trained, cpu)
other = torch.randn(1000)
properties = module.get_device_properties(0)
answer = dict(
    name=name,
    count=torch.accelerator.device_count(),
    twice=(x + x).tolist(),
    add=torch.equal((a.to(name) + b.to(name)).cpu(), a + b),
    strided=torch.equal(a.to(name).t().contiguous().cpu(), a.t()),
    losses=losses,
    cpu_losses=cpu_losses,
    streams=streams(),
    peer=torch.equal(other.to(f"{name}:0").to(f"{name}:1").cpu(), other),
    aligned=[torch.empty(size, device=name).data_ptr() % 64 for size in (1, 1000, 4 << 20)],
    version=[properties.name, properties.major, properties.minor, properties.total_memory],
    memory=list(module.mem_get_info()),
    pinned=torch.ones(10).pin_memory().is_pinned(),
    paddle="paddle" in sys.modules,
    extensions=hardpoint._discovery.choose().extensions,
    calls=hardpoint.counters()["aten::add.Tensor"],
)
"""


def check_use(answer: dict[str, Any]) -> None:
    assert answer["count"] == 2
    assert answer["twice"] == [2, 2]
    assert answer["add"]
    assert answer["strided"]
    assert answer["losses"] == pytest.approx(answer["cpu_losses"], rel=1e-5)
    assert answer["losses"][2] < answer["losses"][0]
    assert answer["streams"]
    assert answer["peer"]
    assert answer["aligned"] == [0, 0, 0]
    assert answer["paddle"] is False
    assert set(answer["calls"]) == {"cpu"}


def test_training_streams_and_memory(plugin: Path, tmp_path: Path) -> None:
    answer = ask(USE, plugin, tmp_path)
    check_use(answer)
    assert answer["name"] == "test_cpu"
    assert answer["version"] == ["Test-CPU v1 (Paddle plug-in)", 7, 5, 1 << 30]
    assert answer["memory"][1] == 1 << 30
    assert 0 < answer["memory"][0] < 1 << 30
    assert answer["pinned"]
    assert answer["extensions"] == ["streams", "events", "info", "pinned", "peer"]


def without(*callbacks: str) -> str:
    return "; ".join(f"table->{name} = nullptr" for name in callbacks)


ASYNCHRONOUS = ("async_memory_copy_h2d", "async_memory_copy_d2h", "async_memory_copy_d2d")


@pytest.mark.parametrize(
    ("init", "extensions"),
    [
        (without("create_stream"), ["info", "pinned", "peer"]),
        (without(*ASYNCHRONOUS, "query_stream", "query_event"), ["streams", "events", "info", "pinned", "peer"]),
        (without("stream_wait_event", "memory_copy_p2p"), ["streams", "events", "info", "pinned"]),
        (without("memory_copy_d2d", "async_memory_copy_d2d"), ["streams", "events", "info", "pinned", "peer"]),
        (
            without("host_memory_allocate", "device_memory_stats", "device_min_chunk_size", "get_compute_capability")
            + "; table->device_memory_allocate = any_size",
            ["streams", "events", "info", "peer"],
        ),
    ],
    ids=["no streams", "plain copies", "no waits", "no copies on the device", "no figures"],
)
def test_optional_callbacks_may_be_absent(init: str, extensions: list[str], tmp_path: Path) -> None:
    answer = ask(USE, build(tmp_path / "plugin", init), tmp_path)
    check_use(answer)
    assert answer["extensions"] == extensions


@pytest.mark.parametrize(("table", "params"), [(1128, 96), (1032, 96), (976, 96), (920, 96), (912, 88)])
def test_table_sizes_of_paddle_2_6_to_3_3(table: int, params: int, tmp_path: Path) -> None:
    path = build(tmp_path / "plugin", "", f"-DINTERFACE_SIZE={table}", f"-DPARAMS_SIZE={params}")
    code = "from hardpoint._discovery import choose\nplugin = choose()\nanswer = [plugin.name, plugin.device_count]"
    assert ask(code, path, tmp_path) == ["test_cpu", 2]


def test_device_selection(plugin: Path, tmp_path: Path) -> None:
    code = "import torch\nanswer = torch._C._get_privateuse1_backend_name()"
    assert ask(code, plugin, tmp_path) == "test_cpu"
    assert ask(code, plugin, tmp_path, HARDPOINT_DEVICE="test_cpu") == "test_cpu"
    assert ask(code, plugin, tmp_path, HARDPOINT_DEVICE="sim") == "sim"
    assert ask(code, plugin, tmp_path, HARDPOINT_PADDLE_NAME="chip") == "chip"
    assert ask_python(code, tmp_path, HARDPOINT_PADDLE_PLUGIN="") == "privateuseone"


def test_run_time_failures(tmp_path: Path) -> None:
    code = """
import torch
def message(action):
    try:
        action()
    except RuntimeError as error:
        return [type(error).__name__, str(error)]
    return "no error"
answer = [
    message(lambda: torch.empty(1 << 40, dtype=torch.uint8, device="test_cpu")),
    message(lambda: torch.empty((1 << 63) - 1, dtype=torch.uint8, device="test_cpu")),
    message(lambda: torch.zeros(2).to("test_cpu")),
    message(lambda: torch.empty(2, device="test_cpu").clone()),
    torch.empty(2, device="test_cpu").cpu().shape,
]
"""
    failing = without(*ASYNCHRONOUS) + (
        "; table->memory_copy_h2d = failing_copy; table->memory_copy_d2d = throwing_copy"
    )
    path = build(tmp_path / "plugin", failing)
    full, overflow, failed, threw, shape = ask(code, path, tmp_path)
    assert full[0] == overflow[0] == "OutOfMemoryError"
    assert "callback device_memory_allocate could not allocate" in full[1]
    assert f"{path}: callback memory_copy_h2d returned C_INTERNAL_ERROR" in failed[1]
    assert f"{path}: memory_copy_d2d threw: link 3 is down" in threw[1]
    assert shape == [2]


# ---- Rejected plug-ins

IMPORT_TORCH = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import torch
answer = dict(
    warnings=[str(w.message) for w in caught],
    sum=(torch.ones(2) + 1).tolist(),
    backend=torch._C._get_privateuse1_backend_name(),
)
"""


def refused(path: Path, cache: Path, **variables: str) -> str:
    """Import torch in a separate process, check that nothing was registered, and return the only warning."""
    answer = ask(IMPORT_TORCH, path, cache, **variables)
    assert answer["sum"] == [2, 2]
    assert answer["backend"] == "privateuseone"
    assert len(answer["warnings"]) == 1, answer["warnings"]
    start = "hardpoint: no device was mounted: "
    assert answer["warnings"][0].startswith(start)
    message: str = answer["warnings"][0][len(start) :]
    return message.removesuffix("\n`hardpoint doctor` lists all problems")


def text_file(folder: Path) -> Path:
    folder.mkdir()
    path = folder / "libtext.so"
    path.write_text("this is no library\n")
    return path


def own_contract(folder: Path) -> Path:
    folder.mkdir()
    source = ROOT / "tests" / "fixtures" / "plugin.c"
    return compile_c(source, folder / "own.so", "-Wno-unused", "-shared", "-fPIC", "-DINIT=")


def spoiled(init: str, *flags: str) -> Callable[[Path], Path]:
    return lambda folder: build(folder, init, *flags)


#: Defect -> how to build it, and what the message contains besides the file's path.
REFUSED: dict[str, tuple[Callable[[Path], Path], str]] = {
    "not a library": (text_file, "cannot be loaded: "),
    "no file": (lambda folder: folder / "missing.so", "no such file; HARDPOINT_PADDLE_PLUGIN must be"),
    "Hardpoint's own": (own_contract, "put a Hardpoint plug-in into HARDPOINT_PLUGIN_PATH instead"),
    "another entry": (
        spoiled("", "-DInitPlugin=another_name"),
        "does not export InitPlugin, so it is not a Paddle plug-in",
    ),
    "unknown size": (
        spoiled("", "-DINTERFACE_SIZE=5000"),
        "InitPlugin accepted none of the tables of Paddle 2.6 to 3.3 (1128, 1032, 976, 920 and 912 bytes)",
    ),
    "a required callback": (
        spoiled(without("set_device", "memory_copy_d2h")),
        "Paddle plug-in 'Test-CPU' lacks the required callback(s) set_device, memory_copy_d2h",
    ),
    "no driver": (spoiled("table->initialize = broken_driver"), "callback initialize failed"),
    "no devices": (spoiled("table->get_device_count = no_devices"), "plug-in 'test_cpu' found no device"),
    "crashes": (spoiled("raise(SIGSEGV)"), "crashed with signal 11 in the probe process"),
    "throws": (spoiled('throw std::runtime_error("no firmware")'), "no firmware"),
    "exits": (spoiled("std::exit(3)"), "ended the probe process with exit status 3"),
    "undefined symbol": (spoiled("nobody_defines_this()"), "undefined symbol: nobody_defines_this"),
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Case -> its path and error message, all in one process."""
    root = tmp_path_factory.mktemp("refused")
    paths = {name: str(make(root / str(i))) for i, (name, (make, _)) in enumerate(REFUSED.items())}
    code = f"""
import os
import hardpoint._discovery
answer = {{}}
for name, path in {paths!r}.items():
    os.environ["HARDPOINT_PADDLE_PLUGIN"] = path
    try:
        answer[name] = [path, "accepted: " + hardpoint._discovery.choose().name]
    except hardpoint.PluginError as error:
        answer[name] = [path, str(error)]
"""
    answer: dict[str, Any] = ask_python(code, root / "cache")
    return answer


@pytest.mark.parametrize("case", REFUSED)
def test_rejected_with_one_message(case: str, outcomes: dict[str, Any]) -> None:
    path, message = outcomes[case]
    assert message.startswith(f"{path}: ")
    assert REFUSED[case][1] in message
    assert "hp_plugin_init" not in message
    if case == "crashes":
        assert f"HARDPOINT_PADDLE_PLUGIN={path} gdb --args" in message
    else:
        assert "paddle_bridge.so" not in message


@pytest.mark.parametrize("case", ["not a library", "a required callback", "crashes"])
def test_import_torch_succeeds(case: str, outcomes: dict[str, Any], tmp_path: Path) -> None:
    path, message = outcomes[case]
    assert refused(Path(path), tmp_path) == message


def test_missing_paddle_libraries_are_reported(outcomes: dict[str, Any], tmp_path: Path) -> None:
    path = Path(outcomes["undefined symbol"][0])
    assert "install the Paddle it was built for" in refused(path, tmp_path, HARDPOINT_PADDLE_LIBS="")
    message = refused(path, tmp_path, HARDPOINT_PADDLE_LIBS="/nowhere")
    assert "loaded from /nowhere: check that this is the Paddle" in message


def test_wrong_variable_is_reported(plugin: Path, tmp_path: Path) -> None:
    answer = ask_python(IMPORT_TORCH, tmp_path, HARDPOINT_PLUGIN_PATH=str(plugin))
    assert answer["backend"] == "privateuseone"
    assert f"it is a Paddle plug-in: hardpoint mount-paddle-plugin {plugin}" in answer["warnings"][0]


def test_name_reserved_by_torch(plugin: Path, tmp_path: Path) -> None:
    answer = ask(IMPORT_TORCH, plugin, tmp_path, HARDPOINT_PADDLE_NAME="cuda")
    assert answer["backend"] == "privateuseone"
    assert "device name 'cuda' cannot be used with torch" in answer["warnings"][0]


# ---- The command


def mount(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "hardpoint.cli", "mount-paddle-plugin", *arguments]
    variables = environment(cache, COLUMNS="300", TERM="dumb")
    return subprocess.run(command, capture_output=True, text=True, env=variables, timeout=200)


def test_command_verifies_and_prints_the_variables(plugin: Path, tmp_path: Path) -> None:
    done = mount(tmp_path, str(plugin))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mounted test_cpu: 2 devices, streams, events, info, pinned, peer" in done.stdout
    assert "runtime" in done.stdout
    assert "failed" not in done.stdout
    assert f"export HARDPOINT_PADDLE_PLUGIN={plugin} HARDPOINT_DEVICE=test_cpu" in done.stdout


def test_command_runs_a_script(plugin: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, torch\nx = torch.ones(2, device='chip')\nprint(sys.argv[1:], x + x)\nsys.exit(7)\n")
    done = mount(tmp_path, str(plugin), "--name", "chip", "--", str(script), "--steps", "3")
    assert done.stdout == "['--steps', '3'] tensor([2., 2.], device='chip:0')\n"
    assert done.returncode == 7


def test_command_reports_a_missing_file(tmp_path: Path) -> None:
    done = mount(tmp_path, str(tmp_path / "missing.so"))
    assert done.returncode == 1
    assert "refused" in done.stdout
    assert "no such file" in done.stdout
