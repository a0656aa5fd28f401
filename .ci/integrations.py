"""Tests the integrations with the libraries of PyPI and writes the table in the docs: ``make integrations``.

The environment is a layer over ``.venv``: it has the libraries, and takes torch, Hardpoint and pytest from there.
PyPI's torchvision needs PyPI's torch, which is built for CUDA and runs without a GPU: if ``.venv`` has another build of
torch, libraries on top of torchvision are tested in a second environment of 5 GB, which is removed afterwards. Standard
library only.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "integrations"
BASE = ROOT / ".venv"
PAGES = {"en": ROOT / "docs/reference/libraries.md", "zh": ROOT / "docs/reference/libraries.zh-CN.md"}

#: Library -> arguments of pytest.
LIBRARIES = {
    "transformers": [
        *("tests/integrations/test_transformers.py", "tests/integrations/test_model_sweep.py"),
        *("--deselect", "tests/integrations/test_model_sweep.py::test_timm_nets_train"),
    ],
    "accelerate": ["tests/integrations/test_accelerate.py"],
    "lightning": ["tests/integrations/test_lightning.py"],
    "deepspeed": ["tests/integrations/test_deepspeed.py"],
    "ray": ["tests/integrations/test_ray.py"],
    "safetensors": ["tests/integrations/test_safetensors.py"],
    **{
        name: ["tests/integrations/test_more_libraries.py", "-k", name]
        for name in ("peft", "diffusers", "torchao", "torchmetrics", "einops", "torchdata")
    },
    "timm": [
        *("tests/integrations/test_more_libraries.py", "tests/integrations/test_model_sweep.py"),
        *("-k", "timm"),
    ],
}
#: Library -> its packages, if it has another name there or extras.
PACKAGES = {"ray": "ray[train]"}
#: Column -> tests that count for it. A test may count for several; the last column has all other tests.
COLUMNS = {
    "training": r"train|gradient_accumulation",
    "mixed precision": r"\[(bf16|fp16|16)|fabric|mixed",
    "resume": r"resume",
    "distributed": r"ranks|launch",
    "inference, loading": r"inference|generate|pipeline|device_map|dispatch|offload|evaluation|load|safe_open|models",
    "other": r"$^",
}
CHINESE = {"library": "库", "version": "版本", "date": "日期", "training": "训练", "mixed precision": "混合精度"}
CHINESE |= {"resume": "恢复", "distributed": "分布式", "inference, loading": "推理、加载", "other": "其他"}
#: Libraries that import torchvision.
VISION = ("timm",)


def run(command: list[str], log: Path, **variables: str) -> int:
    """Run a command with its output in a log file; returns its status."""
    with log.open("a") as output:
        environment = {**os.environ, **variables}
        done = subprocess.run(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False)
        if done.returncode:
            print(f"-- status {done.returncode}: {' '.join(command)}", file=output)
    return done.returncode


def environment(folder: Path) -> str:
    """Make an environment on top of ``.venv``; returns the path of its Python."""
    python = str(folder / "bin" / "python")
    subprocess.run([str(BASE / "bin" / "python"), "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    base = BASE / packages.relative_to(folder)
    (packages / "base.pth").write_text(f"import site; site.addsitedir({str(base)!r})\n")
    return python


def install(python: str, log: Path, *packages: str) -> int:
    """Install packages into an environment; returns pip's status."""
    return run([python, "-m", "pip", "install", "--disable-pip-version-check", *packages], log)


def torch_version() -> str:
    """Version of the torch that Hardpoint is built for here."""
    query = "import importlib.metadata as m; print(m.version('torch'))"
    return subprocess.run(
        [BASE / "bin" / "python", "-c", query], capture_output=True, text=True, check=True
    ).stdout.strip()


def prepare(log: Path) -> str:
    """Make the environment, unless it is there; returns the path of its Python."""
    folder = WORK / "env"
    ready = folder / "ready"
    if ready.exists():
        return str(folder / "bin" / "python")
    print("== packages", flush=True)
    python = environment(folder)
    constraints = WORK / "constraints.txt"
    constraints.write_text(f"torch=={torch_version()}\n")
    packages = [PACKAGES.get(name, name) for name in LIBRARIES if name not in VISION]
    if install(python, log, "-c", str(constraints), *packages):
        raise SystemExit(f"the libraries cannot be installed: see {log}")
    if install(python, log, "-c", str(constraints), "torchvision", *VISION) or run(
        [python, "-c", "import torchvision"], log
    ):
        # Built for another torch. A broken one breaks every library that looks for it.
        run([python, "-m", "pip", "uninstall", "--yes", "torchvision", *VISION], log)
    ready.touch()
    return python


def prepare_vision(log: Path) -> str | None:
    """Make the environment with PyPI's torch and torchvision; returns the path of its Python, None without them."""
    folder = WORK / "vision"
    if (folder / "ready").exists():
        return str(folder / "bin" / "python")
    print("== packages: torchvision", flush=True)
    python = environment(folder)
    # Arbitrary equality: 2.13.0 itself, not 2.13.0+cpu.
    wanted = f"torch==={torch_version().partition('+')[0]}"
    if install(python, log, "--ignore-installed", wanted, "torchvision") or install(python, log, *VISION):
        return None
    (folder / "ready").touch()
    return python


def columns(test: str) -> list[str]:
    """The columns that a test counts for."""
    return [name for name, pattern in COLUMNS.items() if re.search(pattern, test)] or ["other"]


def counts(report: Path) -> dict[str, dict[str, int]]:
    """Read pytest's report: column -> outcome -> number of tests."""
    found: dict[str, dict[str, int]] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        outcome = "passed"
        for tag in ("skipped", "failure", "error"):
            if case.find(tag) is not None:
                outcome = "skipped" if tag == "skipped" else "failed"
        for name in columns(case.get("name", "")):
            numbers = found.setdefault(name, {})
            numbers[outcome] = numbers.get(outcome, 0) + 1
    return found


def cell(numbers: dict[str, int]) -> str:
    """Passed tests, and failed ones if any."""
    failed = f"**{numbers['failed']} failed**" if numbers.get("failed") else ""
    passed = str(numbers["passed"]) if numbers.get("passed") else ""
    return ", ".join(filter(None, (passed, failed))) or "-"


def check(library: str, python: str, log: Path) -> dict[str, object] | None:
    """Test a library; None if it is not installed."""
    query = f"import importlib.metadata as m; print(m.version({library!r}))"
    version = subprocess.run([python, "-c", query], capture_output=True, text=True)
    if version.returncode:
        return None
    report = WORK / "report.xml"
    report.unlink(missing_ok=True)
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", *LIBRARIES[library]]
    status = run(pytest, log, HARDPOINT_DEVICE="sim")
    numbers = counts(report) if report.exists() else {"other": {"failed": 1}}
    row = {name: cell(numbers.get(name, {})) for name in COLUMNS}
    print(f"   {library:14} {version.stdout.strip():10} " + ", ".join(f"{k}: {v}" for k, v in row.items()), flush=True)
    date = datetime.date.today().isoformat()
    result: dict[str, object] = {"library": library, "version": version.stdout.strip(), "date": date, **row}
    (WORK / f"{library}.json").write_text(json.dumps(result, indent=1) + "\n")
    return {**result, "failed": status != 0}


def write_pages() -> None:
    """Put this machine's results into the docs, and keep the rows of libraries that it does not have."""
    head = ["library", "version", "date", *COLUMNS]
    for language, page in PAGES.items():
        text = page.read_text()
        rows = {match[1]: match[0] for match in re.finditer(r"^\| (\w+) \| \d.*", text, re.MULTILINE)}
        for path in WORK.glob("*.json"):
            result = json.loads(path.read_text())
            rows[result["library"]] = f"| {' | '.join(str(result[name]) for name in head)} |"
        names = [CHINESE[name] if language == "zh" else name for name in head]
        table = [f"| {' | '.join(names)} |", f"|{'---|' * len(head)}", *(rows[n] for n in LIBRARIES if n in rows)]
        begin, end = "<!-- libraries -->", "<!-- end of libraries -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        page.write_text(f"{before}{begin}\n\n" + "\n".join(table) + f"\n\n{end}{after}")


def main() -> int:
    """Test the libraries given on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("libraries", nargs="*", help=f"libraries (default: {' '.join(LIBRARIES)})")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    log = WORK / "log.txt"
    log.unlink(missing_ok=True)
    python = prepare(log)
    chosen = options.libraries or list(LIBRARIES)
    print("== libraries", flush=True)
    results = [check(library, python, log) for library in chosen if library not in VISION]
    if vision := [library for library in chosen if library in VISION]:
        beside = run([python, "-c", "import torchvision"], log) == 0
        with_torchvision = python if beside else prepare_vision(log)
        if with_torchvision is None:
            print(f"   no torchvision for torch {torch_version()}: {', '.join(vision)} left out", flush=True)
        else:
            results += [check(library, with_torchvision, log) for library in vision]
        shutil.rmtree(WORK / "vision", ignore_errors=True)
    write_pages()
    bad = [result["library"] for result in results if result is not None and result["failed"]]
    if bad:
        print(f"failures with {', '.join(map(str, bad))}: see {log}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
