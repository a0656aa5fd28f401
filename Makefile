# make demo   trains small nets on the simulated device         make quick  the inner loop: fast tests only
# make test   all tests                                         make bench  benchmarks, as ratios
# make lint / make format                                       make clean
# make opencl installs PoCL, an OpenCL driver for the CPU, where root and Debian's packages are to be had
.DEFAULT_GOAL := help
.PHONY: help demo test quick bench lint format clean ready check-tools native opencl

VENV   := .venv
PYTHON := $(VENV)/bin/python
JOBS   ?= 2
# Files stay whole: some have something to build once for all of their tests.
PARALLEL := -n $(JOBS) --dist loadfile
# pip, not uv: it is the installer that takes a locally provided CPU build of torch.
TORCH  ?= torch==2.13.0

SOURCES := $(shell find src csrc include plugins -type f \( -name '*.cpp' -o -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.txt' \
             -o -name '*.map' \)) $(shell find src/hardpoint/ops src/hardpoint/codegen -name '*.py') CMakeLists.txt pyproject.toml

help:
	@sed -n 's/^# //p' Makefile | head -4

check-tools:
	@command -v python3 >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv"; exit 1; }
	@python3 -c 'import sys; assert sys.version_info >= (3, 10)' 2>/dev/null || { echo "Python 3.10 or newer is needed"; exit 1; }
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "venv is missing: apt-get install python3-venv"; exit 1; }
	@command -v g++ >/dev/null || { echo "g++ is missing: apt-get install g++"; exit 1; }
	@python3 -c 'import os, sysconfig; assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null \
	  || { echo "the Python headers are missing: apt-get install python3-dev"; exit 1; }

$(VENV)/.packages: pyproject.toml | check-tools
	@echo "== virtual environment and packages in $(VENV)"
	@test -x $(PYTHON) || python3 -m venv $(VENV)
	@$(PYTHON) -m pip install -qq --disable-pip-version-check $(TORCH)
	@$(PYTHON) -c 'import tomllib, subprocess, sys; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  extra = p["optional-dependencies"]; \
	  raise SystemExit(subprocess.call([sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", \
	  *p["dependencies"], *extra["build"], *extra["test"], *extra["lint"], *extra["paddle"]]))'
	@touch $@

$(VENV)/.built: $(VENV)/.packages $(SOURCES)
	@echo "== building Hardpoint for the installed torch and Paddle (a few minutes the first time)"
	@TORCH_DEVICE_BACKEND_AUTOLOAD=0 CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m pip install --quiet \
	  --disable-pip-version-check --no-build-isolation --no-deps --config-settings=cmake.define.HARDPOINT_STRICT=ON --editable .
	@touch $@

ready: $(VENV)/.built

demo: ready
	@$(PYTHON) examples/digits.py
	@GLOG_minloglevel=1 $(PYTHON) -W "ignore:No ccache found" examples/digits_paddle.py

test: ready lint
	@echo "== tests"
	@$(PYTHON) -m pytest -q $(PARALLEL) tests

quick: ready
	@$(PYTHON) -m pytest -q $(PARALLEL) -m "not slow" tests

bench: ready
	@$(PYTHON) benchmarks/dispatch.py
	@$(PYTHON) benchmarks/copy.py
	@$(PYTHON) benchmarks/kernels.py
	@$(PYTHON) benchmarks/models.py
	@$(PYTHON) benchmarks/paddle_dispatch.py
	@$(PYTHON) benchmarks/observers.py
	@$(PYTHON) benchmarks/collectives.py
	@if ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1; then $(PYTHON) benchmarks/opencl.py; fi

# Never an error: without OpenCL its tests are skipped, and say so.
opencl:
	@if ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1; then echo "== OpenCL is installed"; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "== installing PoCL"; \
	  { timeout 120 apt-get -qq update; DEBIAN_FRONTEND=noninteractive timeout 600 apt-get -qq install -y \
	    --no-install-recommends pocl-opencl-icd ocl-icd-libopencl1; } >/dev/null 2>&1 \
	  || echo "PoCL could not be installed: the tests of OpenCL will be skipped"; \
	else echo "no OpenCL here: apt-get install pocl-opencl-icd ocl-icd-libopencl1, as root"; fi

CXX_FILES = $(shell git ls-files --cached --others --exclude-standard '*.cpp' '*.h' '*.c' '*.inc')

lint: $(VENV)/.packages
	@echo "== lint"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)

format: $(VENV)/.packages
	@$(VENV)/bin/ruff check --quiet --fix .
	@$(VENV)/bin/ruff format --quiet .
	@$(VENV)/bin/clang-format -i $(CXX_FILES)

clean:
	rm -rf build dist $(VENV)/.built
