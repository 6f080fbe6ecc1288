# torch_fl: `make lab` opens the workbench, `make test` checks it, `make help` lists the rest.
#
# Everything is installed into .venv. Each step leaves a stamp in .venv/stamps and runs again only when
# what it was made from is newer.

PYTHON ?= python3
# The torch to install, as pip spells it.
TORCH ?= torch==2.13.0
# A further package index to look for it, such as PyTorch's own one with CPU-only wheels.
TORCH_INDEX ?=
# Passed on to JupyterLab (make lab), pytest (make test) and the benchmarks (make bench).
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PATH := $(abspath $(BIN)):$(PATH)
# What is tested and run is what is installed in .venv, never a source folder that happens to be near.
export PYTHONNOUSERSITE := 1
unexport PYTHONPATH

files = $(shell find $(1) -type f \
  -not -path '*/node_modules/*' -not -path '*/__pycache__/*' -not -path '*/.yarn/*' -not -path 'core/build/*' \
  -not -path 'core/tests/*' -not -path 'fl_widgets/static/*' -not -path 'labextension/lib/*' \
  -not -path 'kernel_ext/torch_fl/labextension/*' -not -name '*.tsbuildinfo' 2>/dev/null)
CORE_SOURCES := $(call files,core)
FRONTEND_SOURCES := $(filter-out %.py,$(call files,labextension fl_widgets))
WORKBENCH_SOURCES := $(filter %.py,$(call files,kernel_ext fl_widgets)) $(call files,jupyter-config) pyproject.toml README.md
FRONTEND_OUTPUT := kernel_ext/torch_fl/labextension/package.json
say = @echo "==> $(1)"

.NOTPARALLEL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help
.PHONY: help host build lab demo test test-all test-cpp test-sanitizers test-fuzz test-frontend test-wheel lint format docs bench wheel clean distclean FORCE

help:
	@echo "make lab       set up .venv and open notebooks/quickstart.ipynb in JupyterLab (ARGS=\"--no-browser --port 8899\")"
	@echo "make demo      run the quickstart without a browser and leave quickstart.html"
	@echo "make test      C++, front-end and Python tests, notebooks, one real browser (ARGS=... go to pytest)"
	@echo "make test-all  the same and the slow ones (the wheels in a clean environment)"
	@echo "make test-sanitizers  the C++ tests under AddressSanitizer and ThreadSanitizer"
	@echo "make test-fuzz  manifests and trace files under libFuzzer and Atheris, 20 s each (needs clang)"
	@echo "make lint      ruff, clang-format, eslint; make format mends what they can"
	@echo "make docs      the C++ API reference, build/docs/api/index.html (needs doxygen)"
	@echo "make bench     speed against torch on the CPU, as ratios (ARGS=... go to bench/run.py)"
	@echo "make wheel     dist/*.whl of torch-fl-core and torch-fl"
	@echo "make build     set up .venv only; TORCH='torch==2.13.0', TORCH_INDEX=, PYTHON=python3 can be set"
	@echo "make clean     remove build output; make distclean removes .venv and node_modules too"

# ---- Set-up -----------------------------------------------------------------------------------------

build: $(STAMPS)/core $(STAMPS)/workbench $(STAMPS)/opencl

$(STAMPS)/venv:
	@sh tools/check_host.sh $(PYTHON)
	$(call say,making $(VENV) with $$($(PYTHON) -V))
	@$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# What cannot be installed here is asked for again whenever a compiler or node is about to be used.
host:
	@sh tools/check_host.sh $(PYTHON)

# Holds the torch that was asked for, so that another TORCH=... installs and builds again.
$(STAMPS)/torch.spec: $(STAMPS)/venv FORCE
	@echo "$(TORCH) $(TORCH_INDEX)" | cmp -s - $@ || echo "$(TORCH) $(TORCH_INDEX)" > $@

$(STAMPS)/torch: $(STAMPS)/torch.spec
	$(call say,installing $(TORCH) (minutes; PyPI's wheel brings CUDA libraries, see TORCH_INDEX in README.md))
	@$(PIP) install -q $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) "$(TORCH)"
	@touch $@

$(STAMPS)/requirements: $(STAMPS)/torch pyproject.toml core/pyproject.toml tools/requirements.py
	$(call say,installing JupyterLab and the build and test tools)
	@$(BIN)/python tools/requirements.py build-system build notebooks dev > $(STAMPS)/requirements.txt
	@$(PIP) install -q -r $(STAMPS)/requirements.txt
	@touch $@

$(STAMPS)/core: $(STAMPS)/requirements $(CORE_SOURCES) | host
	$(call say,building and installing core/ (minutes the first time; seconds later))
	@$(PIP) install -q --no-build-isolation --no-deps --force-reinstall ./core
	@touch $@

labextension/node_modules/.stamp: labextension/package.json labextension/yarn.lock labextension/.yarnrc.yml | host $(STAMPS)/requirements
	$(call say,installing the front end's packages (minutes the first time))
	@cd labextension && sh ../tools/quiet.sh jlpm install
	@touch $@

$(FRONTEND_OUTPUT): labextension/node_modules/.stamp $(FRONTEND_SOURCES) | $(STAMPS)/requirements
	$(call say,building the widgets and the JupyterLab extension)
	@rm -rf kernel_ext/torch_fl/labextension fl_widgets/static labextension/lib labextension/*.tsbuildinfo
	@cd labextension && sh ../tools/quiet.sh jlpm build:prod
	@touch $@

$(STAMPS)/workbench: $(STAMPS)/requirements $(FRONTEND_OUTPUT) $(WORKBENCH_SOURCES) | $(STAMPS)/core
	$(call say,installing the workbench)
	@SKIP_JUPYTER_BUILDER=1 $(PIP) install -q --no-build-isolation --no-deps --force-reinstall .
	@touch $@

$(STAMPS)/opencl: $(STAMPS)/requirements tools/opencl_platforms.py
	$(call say,looking for OpenCL platforms)
	@$(BIN)/python tools/opencl_platforms.py || \
	  { echo "==> none: installing PoCL (OpenCL on the CPU) from PyPI"; $(PIP) install -q pocl-binary-distribution; }
	@touch $@

# ---- Use --------------------------------------------------------------------------------------------

lab: build
	$(call say,opening notebooks/quickstart.ipynb in JupyterLab (Ctrl-C ends it))
	@exec jupyter lab $(if $(filter 0,$(shell id -u)),--allow-root) notebooks/quickstart.ipynb $(ARGS)

demo: build
	$(call say,running notebooks/quickstart.ipynb)
	@jupyter nbconvert --to html --execute --output-dir . --output quickstart.html notebooks/quickstart.ipynb $(ARGS)
	$(call say,quickstart.html is ready)

bench: build
	@$(BIN)/python bench/run.py $(ARGS)

docs:
	$(call say,writing the C++ API reference)
	@sh tools/api_reference.sh build/docs
	$(call say,build/docs/api/index.html is ready)

# ---- Checks -----------------------------------------------------------------------------------------

# For tests/conftest.py (no source folder may be tested) and tests/packaging (what to install).
export TORCH_FL_TEST_INSTALLED := 1
export TORCH_FL_TEST_TORCH := $(TORCH)
export TORCH_FL_TEST_TORCH_INDEX := $(TORCH_INDEX)

test: test-cpp test-frontend
	$(call say,Python tests, notebooks and the browser test)
	@$(BIN)/pytest -m "not slow" $(ARGS)

test-all: test-cpp test-frontend
	$(call say,all Python tests, notebooks and the browser test)
	@$(BIN)/pytest $(ARGS)

test-wheel: build
	$(call say,the wheels in a clean environment)
	@$(BIN)/pytest tests/packaging $(ARGS)

test-cpp: build
	$(call say,C++ tests)
	@sh tools/cpp_tests.sh

test-sanitizers: $(STAMPS)/requirements | host
	$(call say,C++ tests under AddressSanitizer and ThreadSanitizer)
	@sh tools/sanitizer_tests.sh

test-fuzz: build
	$(call say,fuzzing guided by branches)
	@sh tools/fuzz.sh

test-frontend: build
	$(call say,front-end tests)
	@cd labextension && jlpm test

CPP_FILES = $(filter %.h %.cpp %.c,$(call files,core)) $(shell find core/tests -name '*.cpp' -o -name '*.h' -o -name '*.c')

lint: $(STAMPS)/requirements labextension/node_modules/.stamp
	$(call say,ruff)
	@ruff check .
	@ruff format --check .
	$(call say,clang-format)
	@clang-format --dry-run -Werror $(CPP_FILES)
	$(call say,eslint and prettier)
	@cd labextension && jlpm lint

format: $(STAMPS)/requirements labextension/node_modules/.stamp
	@ruff check --fix . && ruff format .
	@clang-format -i $(CPP_FILES)
	@cd labextension && jlpm lint:fix

# ---- Release ----------------------------------------------------------------------------------------

wheel: $(STAMPS)/requirements $(FRONTEND_OUTPUT)
	$(call say,building dist/*.whl)
	@rm -rf dist && mkdir dist
	@$(PIP) wheel -q --no-build-isolation --no-deps -w dist ./core
	@SKIP_JUPYTER_BUILDER=1 $(PIP) wheel -q --no-build-isolation --no-deps -w dist .
	@ls -l dist

clean:
	@rm -rf core/build build dist fl_widgets/static kernel_ext/torch_fl/labextension labextension/lib labextension/*.tsbuildinfo
	@rm -f quickstart.html $(STAMPS)/core $(STAMPS)/workbench
	@find . -name __pycache__ -not -path './$(VENV)/*' -not -path '*/node_modules/*' -prune -exec rm -rf {} +

distclean: clean
	@rm -rf $(VENV) labextension/node_modules labextension/.yarn
