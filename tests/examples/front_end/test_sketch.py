"""The front end of the example: sketches are opened like any other model."""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from sketch_frontend.front_end import FRONT_END

import afterglow as ag
from afterglow.support import plugins
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from tests.cli.command import Command
from tests.examples.front_end.conftest import EXAMPLE

PARITY = EXAMPLE / "parity.sketch"
MOST_LINES = 200


@pytest.fixture(autouse=True)
def sketch(monkeypatch):
    monkeypatch.setattr(plugins, "_ADDED", {})
    plugins.add_plugin(plugins.FRONT_ENDS, FRONT_END)


def test_a_sketch_is_compiled_and_run(tmp_path):
    bits = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32)
    for source in (PARITY, PARITY.read_bytes()):
        model = ag.compile(source, backend="interpreter", cache=tmp_path)
        np.testing.assert_array_equal(model(bits)[:, 0], [0, 1, 1, 0])


def test_the_command_line_takes_sketches(capsys):
    command = Command(capsys)
    found = command("check", str(PARITY), "--dim", "batch=4", "--json").json
    assert found["format"] == "sketch"
    assert found["ops"] == {"dense": 2, "add": 1, "relu": 1}
    assert found["verdict"] == "supported"
    assert command("run", str(PARITY), "--dim", "batch=4").status == 0


def refused(text: str) -> AfterglowError:
    with pytest.raises(AfterglowError) as caught:
        ag.compile(text.encode(), cache=False)
    return caught.value


def test_errors_name_the_line_or_the_node():
    assert str(refused("sketch 1\nscribble x")) == (
        "error: a line that no sketch has: 'scribble x'\n  in line 2"
    )
    error = refused("sketch 1\ninput x 2\ny = twist x\noutput y")
    assert isinstance(error, UnsupportedError)
    assert str(error) == (
        "error: this op is not supported\n  in node 'y' (twist)\n"
        "  help: replace it by supported ops"
    )
    error = refused("sketch 1\ninput x 2 2\nweights w 2 = 1 2\ny = dense x w\noutput y")
    assert isinstance(error, ModelError)
    assert error.what == "the weights must have 2 axes, they are f32[2]"


def test_the_entry_point_is_the_front_end():
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    (entry,) = project["entry-points"]["afterglow.frontends"].items()
    assert EntryPoint(*entry, group="afterglow.frontends").load() is FRONT_END


def test_the_example_is_short():
    files = (EXAMPLE / "sketch_frontend").glob("*.py")
    assert sum(len(file.read_text().splitlines()) for file in files) < MOST_LINES
