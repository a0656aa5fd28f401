"""Builds and tests the PyTorch adapter with several releases of torch: ``make matrix``.

Each release gets an environment of its own, with the framework-free wheel of Hardpoint. The adapter is built there as
on a user's machine, then a part of the tests runs. Standard library only.
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
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / "build" / "matrix"
PAGES = {"en": ROOT / "docs/reference/torch_releases.md", "zh": ROOT / "docs/reference/torch_releases.zh-CN.md"}
RELEASES = ("2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")

#: Subject -> arguments of pytest.
SUBJECTS = {
    "device": ["tests/torch/test_device.py", "tests/torch/test_memory.py", "tests/torch/test_generator.py"],
    "copy": ["tests/torch/test_copy.py"],
    "autograd": ["tests/torch/test_autograd.py"],
    "autocast": ["tests/torch/test_amp.py"],
    "streams": ["tests/torch/test_streams.py"],
    "serialization": ["tests/torch/test_serialization.py"],
    "graph mode": ["tests/graph/test_graph_mode.py", "tests/graph/test_graph_autocast.py"],
    "2 ranks": ["tests/distributed/test_training.py", "tests/distributed/test_torchrun.py"],
    "OpInfo": ["tests/torch/ops/test_opinfo_sample.py", "-m", "matrix"],
    "frozen wheel": ["tests/test_frozen_wheel.py"],
}
HEADINGS = {"device": "设备", "copy": "复制", "autograd": "自动求导", "autocast": "自动混合精度", "streams": "流"}
HEADINGS |= {"serialization": "序列化", "graph mode": "图模式", "2 ranks": "2 个进程", "OpInfo": "OpInfo"}
HEADINGS |= {"frozen wheel": "冻结的 wheel"}

TESTS = ["pytest>=8", "pytest-timeout", "pytest-xdist", "hypothesis", "expecttest", "numpy", "scikit-learn"]
BUILD = ["cmake>=3.20", "ninja", "pyyaml", "pybind11>=2.13", "scikit-build-core>=0.10", "apache-tvm-ffi>=0.1.15"]


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)


def run(command: list[str], log: Path, **variables: str) -> int:
    """Run a command with its output in a log file; returns its status."""
    environment = {**os.environ, **variables}
    with log.open("a") as output:
        return subprocess.run(
            command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT, env=environment, check=False
        ).returncode


def prepare(release: str, interpreter: str, folder: Path, log: Path) -> str:
    """Make the environment of a release, unless it is there; returns the path of its Python."""
    python = str(folder / "bin" / "python")
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        say(f"   packages (torch {release}: up to 5 GB)")
        install = [python, "-m", "pip", "install", "--disable-pip-version-check", f"torch=={release}", *TESTS, *BUILD]
        if run([interpreter, "-m", "venv", str(folder)], log) or run(install, log):
            raise SystemExit(f"torch {release} cannot be installed: see {log}")
        ready.touch()
    return python


def install_wheel(python: str, number: str, log: Path) -> None:
    """Build the wheel without adapters for this Python, unless this run has built it, and install it."""
    folder = WORK / f"wheel-{number}"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    if not folder.exists():
        options = [f"--config-settings=cmake.define.HARDPOINT_{name}=OFF" for name in ("TORCH", "PADDLE", "PREBUILD")]
        # A build folder of its own: the one of the editable install has other settings.
        options.append(f"--config-settings=build-dir={WORK / f'core-{number}'}")
        build = [*pip, "wheel", "--no-build-isolation", "--no-deps", *options, "--wheel-dir", str(folder), "."]
        if run(build, log, TORCH_DEVICE_BACKEND_AUTOLOAD="0"):
            raise SystemExit(f"the wheel does not build: see {log}")
    wheel = str(next(folder.glob("*.whl")))
    install = [*pip, "install", wheel]
    if run([*install, "--force-reinstall", "--no-deps"], log) or run(install, log):
        raise SystemExit(f"the wheel cannot be installed: see {log}")


def counts(report: Path) -> dict[str, int]:
    """Read pytest's report."""
    suite = next(ElementTree.parse(report).iter("testsuite"))
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return {"passed": total - skipped - failed, "failed": failed, "skipped": skipped}


def check(release: str, interpreter: str) -> dict[str, object]:
    """Build and test the adapter for a release."""
    found = subprocess.run([interpreter, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    number = ".".join(found.split(".")[:2])
    name = f"{release}-python{number}"
    say(f"== torch {release}, Python {found}")
    log = WORK / f"{name}.log"
    log.unlink(missing_ok=True)
    python = prepare(release, interpreter, WORK / name, log)
    install_wheel(python, number, log)
    cache = WORK / f"cache-{name}"
    shutil.rmtree(cache, ignore_errors=True)
    tools = f"{Path(python).parent}:{os.environ['PATH']}"
    variables = {"HARDPOINT_CACHE": str(cache), "PATH": tools, "HARDPOINT_DEVICE": "sim"}
    start = time.monotonic()
    status = run([python, "-m", "hardpoint.cli", "build", "torch"], log, **variables)
    result: dict[str, object] = {
        "release": release,
        "python": found,
        "date": datetime.date.today().isoformat(),
        "build_seconds": round(time.monotonic() - start),
        "built": status == 0,
    }
    say(f"   adapter {'built' if status == 0 else 'NOT built'} in {result['build_seconds']} s")
    subjects: dict[str, dict[str, int]] = {}
    for subject, arguments in SUBJECTS.items() if status == 0 else ():
        report = WORK / "report.xml"
        report.unlink(missing_ok=True)
        pytest = [python, "-m", "pytest", "-q", "-n", "2", "--dist", "loadscope", "-p", "no:cacheprovider"]
        run([*pytest, f"--junitxml={report}", *arguments], log, **variables)
        subjects[subject] = counts(report) if report.exists() else {"passed": 0, "failed": 1, "skipped": 0}
        say(f"   {subject:14} {cell(subjects[subject])}")
    result["subjects"] = subjects
    (WORK / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    return result


def cell(found: dict[str, int]) -> str:
    """Passed tests, and failed ones if any."""
    return f"{found['passed']}" + (f", **{found['failed']} failed**" if found["failed"] else "")


def table(results: list[dict[str, object]], chinese: bool) -> str:
    """The results as a Markdown table."""
    names = [HEADINGS[s] if chinese else s for s in SUBJECTS]
    head = ["torch", "Python", "日期" if chinese else "date", "编译" if chinese else "build", *names]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for result in results:
        subjects = result["subjects"]
        assert isinstance(subjects, dict)
        cells = [cell(subjects[s]) if s in subjects else "-" for s in SUBJECTS]
        first = [str(result[key]) for key in ("release", "python", "date")]
        built = f"{result['build_seconds']} s" if result["built"] else "**fails**"
        lines.append(f"| {' | '.join([*first, built, *cells])} |")
    return "\n".join(lines)


def write_pages() -> None:
    """Put the results of all releases tested so far on this machine, and the newest in the page, into the docs."""
    for language, page in PAGES.items():
        text = page.read_text()
        known = {match[1]: match[0] for match in re.finditer(r"^\| (2\.\S+ \| 3\.\d+)\..*", text, re.MULTILINE)}
        for path in WORK.glob("2.*.json"):
            result = json.loads(path.read_text())
            key = f"{result['release']} | {result['python'].rpartition('.')[0]}"
            known[key] = table([result], language == "zh").splitlines()[2]
        head = table([], language == "zh")
        rows = [known[key] for key in sorted(known, key=lambda key: [int(n) for n in re.findall(r"\d+", key)])]
        begin, end = "<!-- matrix -->", "<!-- end of matrix -->"
        before, after = text.split(begin)[0], text.split(end)[1]
        page.write_text(f"{before}{begin}\n\n" + "\n".join([head, *rows]) + f"\n\n{end}{after}")


def main() -> int:
    """Test the releases given on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", help=f"releases of torch (default: {' '.join(RELEASES)})")
    parser.add_argument("--python", default=sys.executable, help="Python for the environments (default: this one)")
    options = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    for old in WORK.glob("wheel-*"):
        shutil.rmtree(old)
    results = [check(release, options.python) for release in options.releases or RELEASES]
    write_pages()
    say("\n" + table(results, chinese=False))
    bad = [r for r in results if not r["built"] or any(s["failed"] for s in r["subjects"].values())]  # type: ignore[attr-defined]
    for result in bad:
        say(f"failures with torch {result['release']}: see the log in {WORK}")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
