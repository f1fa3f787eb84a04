# `make demo` and `make test` set everything up by themselves: a virtual environment in .venv.
# `make bench` has one of its own, with the engines that it compares with.
# PYTHON is the Python, 3.11 or newer, that they are made with. MODELS are the files or folders that
# `make bench` times, and SECONDS how long it times each engine on each of them.
PYTHON ?= python3
MODELS ?= examples/digits
SECONDS ?= 3
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
	$(BENCH)/bin/python benchmarks/run.py $(MODELS) --seconds $(SECONDS) --write

clean:
	rm -rf $(VENV) $(BENCH) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Installed anew whenever pyproject.toml changes.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(BENCH)/.ready: pyproject.toml
	$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	touch $@
