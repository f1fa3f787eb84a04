"""Copies of compiled models, in this process and through pickle."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import afterglow
from afterglow.support.errors import UsageError
from tests.backends.cpu import networks
from tests.frontends.models import info, model, node

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda compiled: pickle.loads(pickle.dumps(compiled)),
}


def free() -> afterglow.CompiledModel:
    """A model whose number of rows is free."""
    shape = ("rows", 3)
    return afterglow.compile(
        model([node("Neg", ["x"], ["y"])], inputs=[info("x", shape)], outputs=[info("y", shape)])
    )


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def copied(request: pytest.FixtureRequest) -> Callable[..., afterglow.CompiledModel]:
    return request.param


def test_a_copy_computes_the_same(copied, tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.tiny(), threads=1)
    path = tmp_path / "model.agc"
    compiled.save(path)
    for original in (compiled, afterglow.load(path, threads=1)):
        other = copied(original)
        np.testing.assert_array_equal(other(X), compiled(X))
        assert (other.inputs, other.outputs) == (compiled.inputs, compiled.outputs)
        assert other.compiled.executable.threads == 1


@pytest.mark.usefixtures("exact_versions")
def test_a_copy_has_the_versions_of_a_model_with_free_dimensions(copied) -> None:
    original = free()
    original(X)
    other = copied(original)
    assert other.shapes_held() == [{"x": (2, 3)}]
    np.testing.assert_array_equal(other(X), -X)


def test_a_deep_copy_has_versions_of_its_own() -> None:
    original = free()
    other = copy.deepcopy(original)
    np.testing.assert_array_equal(other(X), -X)
    assert not original.versions()


def test_a_deep_copy_has_states_of_its_own() -> None:
    noise = model([node("RandomNormalLike", ["x"], ["y"], seed=1.0)])
    original = afterglow.compile(noise)
    first = original(X)
    other = copy.deepcopy(original)
    second = original(X)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(other(X), second)


def test_interpreted_models_are_copied_and_pickled() -> None:
    compiled = afterglow.compile(networks.tiny(), backend="interpreter")
    for way in (copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))):
        np.testing.assert_array_equal(way(compiled)(X), compiled(X))


def test_nothing_compiled_is_nothing_to_pickle() -> None:
    with pytest.raises(UsageError, match="nothing of the model is compiled yet"):
        pickle.dumps(free())


@pytest.mark.usefixtures("exact_versions")
def test_a_pickled_model_names_no_file(tmp_path: Path) -> None:
    original = free()
    original(X)
    other = pickle.loads(pickle.dumps(original))
    with pytest.raises(UsageError, match="error: the pickle: the model was not saved for"):
        other(X[:1])


PROGRAM = """
import pickle, sys
import numpy as np
compiled = pickle.load(open(sys.argv[1], "rb"))
sys.stdout.buffer.write(compiled(np.load(sys.argv[2])).tobytes())
"""


def test_another_process_runs_a_pickled_model(tmp_path: Path) -> None:
    compiled = afterglow.compile(networks.tiny())
    (tmp_path / "pickle").write_bytes(pickle.dumps(compiled))
    np.save(tmp_path / "x.npy", X)
    words = [sys.executable, "-c", PROGRAM, tmp_path / "pickle", tmp_path / "x.npy"]
    assert subprocess.run(words, capture_output=True, check=True).stdout == compiled(X).tobytes()
