# `make demo` and `make test` set everything up by themselves: a virtual environment in .venv.
# PYTHON is the Python, 3.11 or newer, that it is made with; MODELS is what `make bench` times.
PYTHON ?= python3
MODELS ?= examples/digits
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

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

bench: $(READY)
	$(BIN)/python benchmarks/run.py $(MODELS)

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Installed anew whenever pyproject.toml changes.
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@
