# `make demo` and `make test` set up a virtual environment in .venv. `make bench` has its own, with
# the other engines.
# PYTHON is the Python interpreter for them, 3.11 or newer. MODELS are the files or folders that
# `make bench` times, and SECONDS how long it times each engine on each of them. PEERS are the other
# engines: all, or a comma-separated list of onnxruntime openvino mnn ncnn torch inductor jax tvm
# iree. Results go to the file RESULTS, tables and figures to the folder PAGE; without --anew in
# FLAGS they are added to the results in that file.
# `make docs` builds the site of the documents into build/site.
# `make test-cuda` runs the conformance kit on the GPU of this machine, and writes what came out
# to docs/cuda-results.md, with the rows that `python -m benchmarks.cuda` left in build/.
# `make fuzz` fuzzes for SECONDS in an environment of its own (docs/fuzzing.md); KINDS are what it
# fuzzes, with commas, and JOBS how many processes do it.
PYTHON ?= python3
MODELS ?= examples/digits
PEERS ?= onnxruntime,openvino,mnn,ncnn
RESULTS ?= build/bench/results.json
PAGE ?= build/bench
FLAGS ?= --anew
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTABLE := $(VENV)/.testable
BENCH := .venv-bench
FUZZ := .venv-fuzz
KINDS ?= models,mutants,hostile,saved,guarded,programs
JOBS ?= 2

# Tests start many processes, each of which would compile hundreds of modules anew without it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-cuda lint docs bench fuzz clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-all: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal --hypothesis-profile=fresh

test-cuda: $(TESTABLE)
	@$(BIN)/python -m benchmarks.cuda.gpu
	mkdir -p build
	-$(BIN)/python -m pytest -n auto tests/backends/cuda/test_gpu.py --junitxml=build/cuda.xml
	$(BIN)/python -m benchmarks.cuda.page build/cuda.xml build/cuda.jsonl > docs/cuda-results.md
	@cat docs/cuda-results.md

lint: $(TESTABLE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.documentable
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "built: python3 -m http.server -d build/site serves it, with search"

bench: SECONDS ?= 3
bench: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks.install $(PEERS)
	$(BENCH)/bin/python -m benchmarks.run $(MODELS) --vs $(PEERS) --seconds $(SECONDS) \
		--batches 1,2,4,8,16,32 --results $(RESULTS) --page $(PAGE) $(FLAGS)

fuzz: SECONDS ?= 600
fuzz: $(FUZZ)/.ready
	$(FUZZ)/bin/python -m fuzzing --seconds $(SECONDS) --kinds $(KINDS) --jobs $(JOBS)

clean:
	rm -rf $(VENV) $(BENCH) $(FUZZ) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Reinstalled whenever pyproject.toml changes.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[compiler]'
	touch $@

$(TESTABLE): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(VENV)/.documentable: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[compiler]'
	touch $@

$(FUZZ)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FUZZ)
	$(FUZZ)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[fuzz]'
	touch $@
