# make demo   trains small nets on the simulated device         make quick  the inner loop: fast tests only
# make test   all tests                                         make bench  benchmarks, as ratios
# make docs   the documentation site, in build/site             make wheel  a wheel, in dist
# make matrix the adapter with each supported torch (5 GB each); one: TORCH=2.15.0, MATRIX_PYTHON=python3.13
# make integrations  tests with accelerate, Lightning, DeepSpeed, ... from PyPI; one: LIBRARY=lightning
# make lint / make format                                       make clean
# make opencl installs PoCL, an OpenCL driver for the CPU, where root and Debian's packages are to be had
.DEFAULT_GOAL := help
.PHONY: help demo test quick bench docs wheel matrix integrations lint format clean ready check-tools native opencl

VENV   := .venv
PYTHON := $(VENV)/bin/python
JOBS   ?= 2
# Files stay whole: some build something once for all of their tests. tests/conftest.py decides their order.
PARALLEL := -n $(JOBS) --dist loadfile --no-loadscope-reorder
# pip, not uv: it is the installer that takes a locally provided CPU build of torch.
TORCH  ?= 2.13.0
# ON: compile through ccache, without precompiled headers.
CCACHE ?= OFF
# ON: warnings are errors. Off by default: newer compilers than CI's have newer warnings.
STRICT ?= OFF
# sim's most common kernels, compiled in advance: NATIVE is for this machine's CPU, ON for every CPU level, as in wheels.
PREBUILD ?= NATIVE
# Shows what a long command is doing, and the time since make started.
PROGRESS := python3 .ci/progress.py
export PROGRESS_START := $(or $(PROGRESS_START),$(shell date +%s))
export PROGRESS_MAKE := $(or $(PROGRESS_MAKE),$(shell echo $$PPID))

# Installs the project's dependencies and the named extras, not the project. Python 3.10 has no tomllib; pip brings one.
INSTALL = $(PYTHON) -c 'import importlib.util, subprocess, sys; \
  toml = __import__("tomllib" if importlib.util.find_spec("tomllib") else "pip._vendor.tomli", fromlist=["load"]); \
  project = toml.load(open("pyproject.toml", "rb"))["project"]; \
  wanted = [name for extra in sys.argv[1:] for name in project["optional-dependencies"][extra]]; \
  raise SystemExit(subprocess.call([sys.executable, "-m", "pip", "install", "--disable-pip-version-check", \
  *project["dependencies"], *wanted]))'

SOURCES := $(shell find src csrc include plugins -type f \( -name '*.cpp' -o -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.txt' \
             -o -name '*.map' \)) $(shell find src/hardpoint/ops src/hardpoint/codegen -name '*.py') CMakeLists.txt pyproject.toml
KERNELS := $(wildcard src/hardpoint/kernels/*.py)

help:
	@sed -n 's/^# //p' Makefile | head -7

check-tools:
	@command -v python3 >/dev/null || { echo "python3 is missing: apt-get install python3 python3-venv"; exit 1; }
	@python3 -c 'import sys; assert sys.version_info >= (3, 10)' 2>/dev/null || { echo "Python 3.10 or newer is needed"; exit 1; }
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "venv is missing: apt-get install python3-venv"; exit 1; }
	@command -v g++ >/dev/null || { echo "g++ is missing: apt-get install g++"; exit 1; }
	@python3 -c 'import os, sysconfig; assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null \
	  || { echo "the Python headers are missing: apt-get install python3-dev"; exit 1; }

# What the demo in PyTorch needs. Everything else is installed after it has run.
$(VENV)/.torch: pyproject.toml | check-tools
	@test -x $(PYTHON) || $(PROGRESS) "virtual environment" $(VENV) -- python3 -m venv $(VENV)
	@$(PROGRESS) torch "$(TORCH)" -- $(PYTHON) -m pip install --disable-pip-version-check torch==$(TORCH)
	@$(PROGRESS) packages "for building, and for the demo" -- $(INSTALL) build demo
	@touch $@

$(VENV)/.packages: $(VENV)/.torch
	@$(PROGRESS) packages "for testing and linting, and Paddle" -- $(INSTALL) test lint paddle
	@touch $@

# The site needs neither a framework nor a build.
$(VENV)/.docs: pyproject.toml | check-tools
	@test -x $(PYTHON) || $(PROGRESS) "virtual environment" $(VENV) -- python3 -m venv $(VENV)
	@$(PROGRESS) packages "for the documentation" -- $(INSTALL) docs
	@touch $@

# An editable install, for torch and, once it is installed, for Paddle. The argument: which of sim's kernels to compile.
BUILD = env TORCH_DEVICE_BACKEND_AUTOLOAD=0 CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m pip install --verbose \
  --disable-pip-version-check --no-build-isolation --no-deps --config-settings=cmake.define.HARDPOINT_STRICT=$(STRICT) \
  --config-settings=cmake.define.HARDPOINT_CCACHE=$(CCACHE) \
  --config-settings=cmake.define.HARDPOINT_PREBUILD=$(1) --editable .

# Each of these stamps includes the one before.
$(VENV)/.built-torch: $(VENV)/.torch $(SOURCES)
	@$(PROGRESS) building "Hardpoint, for torch (a few minutes the first time)" -- $(call BUILD,OFF)
	@touch $@

$(VENV)/.built: $(VENV)/.packages $(SOURCES)
	@$(PROGRESS) building "Hardpoint, for torch and Paddle (a few minutes the first time)" -- $(call BUILD,OFF)
	@touch $(VENV)/.built-torch $@

$(VENV)/.prebuilt: $(VENV)/.packages $(SOURCES) $(KERNELS)
	@$(PROGRESS) building "Hardpoint, for torch and Paddle, and kernels (a few minutes the first time)" -- $(call BUILD,$(PREBUILD))
	@touch $(VENV)/.built-torch $(VENV)/.built $@

ready: $(VENV)/.built

demo: $(VENV)/.built-torch
	@$(PROGRESS) demo "1 of 2, PyTorch on the simulated device (importing takes a few seconds)"
	@$(PYTHON) examples/digits.py
	@$(MAKE) --no-print-directory ready
	@$(PROGRESS) demo "2 of 2, PaddlePaddle on the simulated device (importing takes a few seconds)"
	@GLOG_minloglevel=1 $(PYTHON) -W "ignore:No ccache found" examples/digits_paddle.py

test: $(VENV)/.prebuilt lint $(VENV)/.docs
	@echo "== tests"
	@$(PYTHON) -m pytest -q $(PARALLEL) tests

quick: ready
	@$(PYTHON) -m pytest -q $(PARALLEL) -m "not slow and not matrix" tests

bench: ready
	@$(PYTHON) benchmarks/dispatch.py
	@$(PYTHON) benchmarks/copy.py
	@$(PYTHON) benchmarks/kernels.py
	@$(PYTHON) benchmarks/models.py
	@if $(PYTHON) -c "import triton" 2>/dev/null; then $(PYTHON) benchmarks/compiled.py; fi
	@$(PYTHON) benchmarks/paddle_dispatch.py
	@$(PYTHON) benchmarks/paddle_models.py
	@$(PYTHON) benchmarks/observers.py
	@$(PYTHON) benchmarks/collectives.py
	@if ls /etc/OpenCL/vendors/*.icd >/dev/null 2>&1; then $(PYTHON) benchmarks/opencl.py; fi

docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict  # --quiet would hide warnings from --strict
	@echo "== build/site/index.html"

# Contains the adapters for the installed torch and Paddle. For others, Hardpoint builds one on first use.
wheel: $(VENV)/.packages
	@rm -rf build/wheel
	@$(PROGRESS) packages "for wheels" -- $(INSTALL) wheel
	@$(PROGRESS) wheel "with adapters for the installed torch and Paddle" -- env TORCH_DEVICE_BACKEND_AUTOLOAD=0 \
	  CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(PYTHON) -m pip wheel --verbose --disable-pip-version-check --no-build-isolation \
	  --no-deps --config-settings=build-dir=build/wheel-objects --wheel-dir build/wheel .
	@$(PYTHON) .ci/tag_wheel.py build/wheel/*.whl dist

# Makes its own environments: .venv, and a torch in it, are not needed.
matrix: | check-tools
	@python3 .ci/matrix.py $(if $(MATRIX_PYTHON),--python $(MATRIX_PYTHON)) $(if $(filter command line environment,$(origin TORCH)),$(TORCH))

integrations: ready
	@$(PYTHON) .ci/integrations.py $(LIBRARY)

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

# The C sources that vendors start from, and changed C++ files that need no framework headers: seconds per file.
TIDY_FILES = examples/hello_c/hello.c csrc/paddle/runtime/loader.c $(wildcard src/hardpoint/projects/templates/device/c/csrc/*.c) \
  $(shell git diff --name-only --diff-filter=d HEAD -- 'csrc/core/*.cpp' 'csrc/ops/*.cpp' 'plugins/*.cpp')
TIDY_FLAGS = -Iinclude -Icsrc -Iplugins/sim $(shell $(PYTHON) -c \
  'from tvm_ffi import libinfo as l; print("-isystem", l.find_include_path(), "-isystem", l.find_dlpack_include_path())')

lint: $(VENV)/.packages
	@echo "== lint"
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/clang-format --dry-run --Werror $(CXX_FILES)
	@$(VENV)/bin/clang-tidy --quiet $(TIDY_FILES) -- $(TIDY_FLAGS) 2>/dev/null  # stderr: progress only

format: $(VENV)/.packages
	@$(VENV)/bin/ruff check --quiet --fix .
	@$(VENV)/bin/ruff format --quiet .
	@$(VENV)/bin/clang-format -i $(CXX_FILES)

clean:
	rm -rf build dist $(VENV)/.built
