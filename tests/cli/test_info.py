"""`afterglow info` tells what files hold, and runs none of them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_explain import DIGITS


@pytest.fixture
def saved(command, tmp_path) -> Path:
    path = tmp_path / "digits.agc"
    command("compile", str(DIGITS), "-o", str(path), "--max-arena", "1MiB")
    return path


def test_a_compiled_model(command, saved):
    data = command("info", str(saved), "--json").json
    assert data["kind"] == "compiled model"
    assert data["inputs"] == ["image: f32[1, 1, 8, 8]"]
    assert data["sha256"] == hashlib.sha256(saved.read_bytes()).hexdigest()
    (source,) = data["made"]["files"]
    assert source == {
        "name": "digits.onnx",
        "sha256": hashlib.sha256(DIGITS.read_bytes()).hexdigest(),
    }
    assert data["made"]["options"] == {"max_arena": "1048576"}
    (program,) = data["programs"]
    assert program["runs_here"]
    assert program["arena_bytes"] > 0
    assert program["weight_bytes"] > 25_000
    assert "runs here" in command("info", str(saved)).out


def test_only_the_runtime_is_needed(saved):
    code = (
        "import sys; from afterglow.cli.main import execute; "
        f"assert execute(['info', {str(saved)!r}]) == 0; "
        "print([name for name in ('llvmlite', 'onnx', 'afterglow.ops') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_bundle_and_its_library_which_is_not_loaded(command, tmp_path):
    folder = tmp_path / "bundle"
    command("compile", str(DIGITS), "-o", f"{folder}/", "--embed-weights")
    data = command("info", str(folder), "--json").json
    assert data["kind"] == "bundle"
    assert data["inputs"] == ["image: f32[1, 1, 8, 8]"]
    assert data["made"]["afterglow"]
    assert any(name.endswith(".h") for name in data["files"])
    (program,) = data["programs"]
    assert program["weight_bytes"] > 25_000


def test_a_model_that_is_not_compiled(command):
    data = command("info", str(DIGITS), "--json").json
    assert data["kind"] == "onnx model"
    assert data["facts"]["opsets"] == "ai.onnx 17"


def test_a_damaged_file_is_refused(command, saved):
    content = bytearray(saved.read_bytes())
    content[-1] ^= 1
    saved.write_bytes(content)
    finished = command("info", str(saved))
    assert finished.status == 2
    assert "is not what was saved" in finished.err


def test_a_missing_file(command):
    command.fails(2, "error: nothing.agc: no such file", "info", "nothing.agc")


def test_a_loaded_model_keeps_what_it_was_made_from(command, saved, tmp_path):
    import_ = "import afterglow; "
    again = tmp_path / "again.agc"
    code = f"{import_}afterglow.load({str(saved)!r}).save({str(again)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    old, new = (command("info", str(path), "--json").json["made"] for path in (saved, again))
    assert old == new
