"""``hardpoint run`` and ``doctor --program`` run a program as ``python`` does, whatever ends it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each test starts processes


def environment() -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("HARDPOINT_")}
    return {**inherited, "HARDPOINT_DEVICE": "sim", "COLUMNS": "300", "TERM": "dumb"}


def python(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), input=stdin, capture_output=True, text=True)


def run(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return python(folder, "-m", "hardpoint.cli", "run", *arguments, stdin=stdin)


ENDS = {
    "normal": "print('done')",
    "status": "import sys\nprint('done')\nsys.exit(3)",
    "large status": "raise SystemExit(259)",
    "message": "import sys\nsys.exit('no data')",
    "none": "raise SystemExit",
    "exception": "def f():\n    raise KeyError('x')\nf()",
    "syntax": "print('a'\n",
    "excepthook": "import sys\nsys.excepthook = lambda kind, *_: print('hook', kind.__name__)\n1 / 0",
    "bad excepthook": "import sys\nsys.excepthook = lambda: None\n1 / 0",
    "interrupt": "import atexit\natexit.register(print, 'bye')\nraise KeyboardInterrupt",
    "own exception": "class Stop(BaseException): pass\nraise Stop(1)",
    "main": "import __main__, pickle, sys\nclass A: pass\nprint(pickle.loads(pickle.dumps(A)) is A, __main__.A is A)\n"
    "print(__name__, __file__, __package__, __spec__, __doc__, sys.argv, sys.path[0])\nsys.exit()",
    "folder": "import os\nos.mkdir('sub')\nos.chdir('sub')\nos.rmdir('../sub')\nprint(__file__)",
    "input": "import sys\nprint(input(), sys.stdin.read().split())",
    "annotations": "x: 'y' = 1\nprint(__annotations__)\ndef f(a: int): pass\nprint(f.__annotations__)",
    "threads": "import threading, time\ndef late():\n    time.sleep(0.3)\n    import __main__\n"
    "    print('late', __main__.x)\nx = 1\nthreading.Thread(target=late).start()",
    "executor": "from concurrent.futures import ThreadPoolExecutor\nimport time\npool = ThreadPoolExecutor(2)\n"
    "pool.submit(lambda: (time.sleep(0.2), print('late')))\nprint('end')",
    "fork": "import os, sys\nchild = os.fork()\nif not child:\n    sys.exit(5)\n"
    "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
    "spawn": "import multiprocessing\ndef f(x):\n    return x + 1\nif __name__ == '__main__':\n"
    "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n        print(pool.map(f, [1, 2]))",
    "signal": "import os, signal\nprint('killed', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)",
    "handler": "import os, signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n"
    "os.kill(os.getpid(), signal.SIGTERM)\nimport time\ntime.sleep(10)",
}


@pytest.mark.parametrize("end", ENDS)
def test_a_program_ends_as_under_python(tmp_path: Path, end: str) -> None:
    (tmp_path / "train.py").write_text(ENDS[end])
    expected = python(tmp_path, "train.py", "a", "--b", stdin="one\ntwo\nthree\n")
    (tmp_path / "sub").rmdir() if (tmp_path / "sub").exists() else None
    done = run(tmp_path, "train.py", "a", "--b", stdin="one\ntwo\nthree\n")
    assert done.returncode == expected.returncode
    assert done.stdout == expected.stdout
    if end != "bad excepthook":  # Python's own traceback starts in another frame
        assert done.stderr == expected.stderr


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "__init__.py").write_text("")
    text = "import sys\nprint(__name__, __file__, __package__, __spec__.name, sys.argv, sys.path[0])\nsys.exit(4)"
    (tmp_path / "net" / "train.py").write_text(text)
    (tmp_path / "net" / "__main__.py").write_text(text)
    for name in ("net.train", "net"):
        expected = python(tmp_path, "-m", name, "--epochs", "3")
        done = run(tmp_path, "-m", name, "--epochs", "3")
        assert (done.returncode, done.stdout, done.stderr) == (4, expected.stdout, "")
    done = run(tmp_path, "-m", "nothing.at_all")
    assert (done.returncode, done.stdout) == (2, "refused: there is no module 'nothing.at_all'\n")
    done = run(tmp_path, "-m", "net.nothing")
    assert done.returncode == 1
    assert "No module named net.nothing" in done.stderr


WRONG = """
import sys

import torch
import hardpoint

hardpoint.kernel("mul", strided=True)(lambda out, x, y: None)
a = torch.ones(3, device="sim")
a * a
{end}
"""


@pytest.mark.parametrize(("end", "status"), [("", 1), ("sys.exit(0)", 1), ("sys.exit()", 1), ("sys.exit(3)", 3)])
def test_a_defect_fails_a_program_that_ends_well(tmp_path: Path, end: str, status: int) -> None:
    (tmp_path / "train.py").write_text(WRONG.format(end=end))
    done = run(tmp_path, "--compare", "mismatches", "train.py")
    assert done.returncode == status
    assert "compare: 1 calls right, 1 wrong" in done.stderr


LATE = """
import threading, time
import torch

x = torch.ones(3, device="sim")


def late():
    time.sleep(0.3)
    x * x


threading.Thread(target=late).start()
"""


def test_tools_see_threads_that_outlive_the_main_one(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LATE)
    done = run(tmp_path, "--dump", "1; ops=mul", "--summary", "train.py")
    assert done.returncode == 0
    assert "aten::mul.Tensor: vendor" in done.stderr


OTHER_FOLDER = """
import os
import torch

os.mkdir("elsewhere")
os.chdir("elsewhere")
a = torch.ones(2, 2, device="sim")
a @ a
os.rmdir("../elsewhere")
(a - 1).log()
"""


def test_files_are_written_where_the_program_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OTHER_FOLDER)
    tools = ("--dump", "1; file=calls.jsonl", "--record", "calls; ops=mm", "--nan", "all; save=bad")
    done = run(tmp_path, *tools, "--trace", "t.json", "--report", "report.html", "train.py")
    assert done.returncode == 1, done.stderr
    assert "nan: aten::log (portable, train.py:10): produced Inf" in done.stderr
    assert "run it again: hardpoint replay bad/aten.log-1.call" in done.stderr
    assert "trace: written to t.json" in done.stderr
    assert "report: written to report.html" in done.stderr
    assert {"aten.mm-1.call"} == {file.name for file in (tmp_path / "calls").iterdir()}
    assert {"aten.log-1.call"} == {file.name for file in (tmp_path / "bad").iterdir()}
    assert "Report on train.py" in (tmp_path / "report.html").read_text()
    assert "train.py:7" in (tmp_path / "calls.jsonl").read_text()


def test_a_killed_program_leaves_the_trace_of_its_report(tmp_path: Path) -> None:
    text = "import torch\nx = torch.ones(3, device='sim')\n(x + x).cpu()\nimport os, signal, time\ntime.sleep(0.5)\n"
    (tmp_path / "train.py").write_text(f"{text}os.kill(os.getpid(), signal.SIGKILL)")
    done = run(tmp_path, "--report", "report.html", "train.py")
    assert done.returncode == -signal.SIGKILL
    [trace] = tmp_path.glob("*.trace.json")
    assert f"hardpoint report {trace.name} report.html" in (tmp_path / "report.html").read_text()
    again = python(tmp_path, "-m", "hardpoint.cli", "report", trace.name, "report.html")
    assert again.returncode == 0
    assert "aten::add.Tensor" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("end", ["", "import sys; sys.exit()", "import sys; sys.exit(2)", "1 / 0"])
def test_the_doctor_reports_whatever_ends_the_program(tmp_path: Path, end: str) -> None:
    program = "import torch\nnet = torch.nn.Linear(2, 2)\nnet(torch.ones(1, 2))\n"
    (tmp_path / "train.py").write_text(program + end)
    done = python(tmp_path, "-m", "hardpoint.cli", "doctor", "--program", "train.py")
    ended = {"": "normally", "import sys; sys.exit()": "normally", "import sys; sys.exit(2)": "with status 2"}
    assert f"program: train.py ended {ended.get(end, 'with status 1')}\n" in done.stdout
    assert "Linear: 1 calls on cpu, by train.py, line 3" in done.stdout


FULL_DISK = """
import resource
import torch

a = torch.ones(3000, device="sim")
resource.setrlimit(resource.RLIMIT_FSIZE, (500, resource.RLIM_INFINITY))  # writes fail like those on a full disk
for _ in range(20):
    b = a * a
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("done", b.sum().item())
"""


def test_a_full_disk_does_not_end_the_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FULL_DISK)
    done = run(tmp_path, "--dump", "1; ops=mul; file=calls.jsonl", "--record", "calls; ops=mul", "train.py")
    assert (done.returncode, done.stdout) == (0, "done 3000.0\n"), done.stderr
    assert done.stderr.count("dump: calls.jsonl ends early: File too large") == 1
    assert done.stderr.count("record: calls/aten.mul.Tensor-1.call was not saved: File too large") == 1
    assert "record: 0 calls in calls, 0 of them failing; not saved: 1 could not be written" in done.stderr
    lines = (tmp_path / "calls.jsonl").read_text().splitlines()
    assert lines
    assert {json.loads(line)["operator"] for line in lines} == {"aten::mul.Tensor"}
    assert list((tmp_path / "calls").iterdir()) == []


NOT_FINITE = """
import torch
import hardpoint

hardpoint.kernel("mul", strided=True)(lambda out, x, y: None)
a = torch.full((3,), float("nan"), device="sim")
torch.empty(3, device="sim").copy_(torch.full((3,), float("inf")))
(a * a).sum()
"""


def strict(text: str) -> object:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_files_are_strict_json(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NOT_FINITE)
    options = ("--dump", "3; file=calls.jsonl", "--compare", "mismatches; file=wrong.jsonl", "--trace", "trace.json")
    done = run(tmp_path, *options, "--report", "report.html", "train.py")
    assert done.returncode == 1, done.stderr
    for file in ("calls.jsonl", "wrong.jsonl"):
        assert [strict(line) for line in (tmp_path / file).read_text().splitlines()]
    strict((tmp_path / "trace.json").read_text())
    assert "nan" in (tmp_path / "wrong.jsonl").read_text()
    assert "Comparison with the CPU" in (tmp_path / "report.html").read_text()


def test_children_of_a_rank_do_not_overwrite_its_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hardpoint.debug import trace

    monkeypatch.setenv(trace.OWNER, "1")
    monkeypatch.setenv("RANK", "3")
    monkeypatch.delenv(trace.RANK_OWNER, raising=False)
    assert trace.process_file("a/trace.json") == Path("a/trace-rank3.json")
    assert trace.process_file("a/trace.json") == Path("a/trace-rank3.json")
    monkeypatch.setenv(trace.RANK_OWNER, "2")  # as in a process that this rank started
    assert trace.process_file("a/trace.json") == Path(f"a/trace-{os.getpid()}.json")


COMPILED = """
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1)).to("sim")
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
forward = torch.compile(net, backend="eager", fullgraph=True)
step = torch.compile(optimizer.step, backend="eager")
x = torch.randn(32, 8).to("sim")
for _ in range(2):
    loss = forward(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    step()
print(loss.item(), torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


def test_tools_do_not_change_what_is_compiled(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPILED)
    expected = python(tmp_path, "train.py")
    assert expected.returncode == 0, expected.stderr
    done = run(tmp_path, "--compare", "mismatches", "--nan", "all", "train.py")
    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    assert " right, 0 wrong" in done.stderr
    asked = python(tmp_path, "-m", "hardpoint.cli", "doctor", "--program", "train.py")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith(expected.stdout)
    assert "2 calls on sim, by train.py, line 12" in asked.stdout
    assert "CUDA" not in asked.stdout  # torch asks, not the program
