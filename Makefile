# `make demo` and `make test` set everything up by themselves: a virtual environment in .venv.
# `make bench` has one of its own, with the engines that it compares with.
# PYTHON is the Python, 3.11 or newer, that they are made with. MODELS are the files or folders that
# `make bench` times, and SECONDS how long it times each engine on each of them. PEERS are those
# engines: all, or some of onnxruntime openvino mnn ncnn torch inductor jax tvm iree, with commas.
# Results go to the file RESULTS, tables and pictures to the folder PAGE; without --anew in FLAGS
# they are added to what is in that file.
PYTHON ?= python3
MODELS ?= examples/digits
SECONDS ?= 3
PEERS ?= onnxruntime,openvino,mnn,ncnn
RESULTS ?= build/bench/results.json
PAGE ?= build/bench
FLAGS ?= --anew
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venv-bench

.PHONY: demo test test-all lint bench clean

demo: $(READY)
	$(BIN)/python examples/demo.py

test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-all: lint
	$(BIN)/python -m pytest -n 2

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(BENCH)/.ready
	$(BENCH)/bin/python -m benchmarks.install $(PEERS)
	$(BENCH)/bin/python -m benchmarks.run $(MODELS) --vs $(PEERS) --seconds $(SECONDS) \
		--batches 1,2,4,8,16,32 --results $(RESULTS) --page $(PAGE) $(FLAGS)

clean:
	rm -rf $(VENV) $(BENCH) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Installed anew whenever pyproject.toml changes.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@
