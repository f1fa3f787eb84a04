from __future__ import annotations

import os
import subprocess
import sys
import warnings
from importlib.metadata import version

import pytest

from afterglow.cli import check
from afterglow.cli.main import LateSession, clean_warnings
from afterglow.support.errors import warn
from tests.cli import models


def test_the_version_is_the_packages(command):
    finished = command("--version")
    assert finished.status == 0
    assert finished.out == f"afterglow {version('afterglow')}\n"


def test_without_a_verb_it_shows_help(command):
    finished = command()
    assert finished.status == 2
    assert "Usage: afterglow" in finished.err


@pytest.mark.parametrize("verb", ["bench", "check", "compile", "dump", "explain", "profile", "run"])
def test_every_verb_has_help_and_json(command, verb):
    finished = command(verb, "--help")
    assert finished.status == 0
    assert "--json" in finished.out
    assert "--debug" in finished.out


def test_an_unknown_verb(command):
    command.fails(
        2,
        """
        error: no such command 'fly'
          help: see afterglow --help
        """,
        "fly",
    )


def test_an_unknown_option(command):
    command.fails(
        2,
        """
        error: no such option '--wings'
          help: see afterglow run --help
        """,
        "run",
        "model.onnx",
        "--wings",
    )


@pytest.mark.parametrize(("word", "meant"), [("chek", "check"), ("complie", "compile")])
def test_a_verb_that_is_almost_right(command, word, meant):
    message = f"""
        error: no such command '{word}'
          help: did you mean '{meant}'? see afterglow --help
        """
    command.fails(2, message, word, "model.onnx")
    command.fails(2, message, "help", word)


def test_an_option_that_is_almost_right(command):
    command.fails(
        2,
        """
        error: no such option '--toleranse'
          help: did you mean '--tolerance'? see afterglow run --help
        """,
        *("run", "model.onnx", "--toleranse", "1"),
    )


def test_help_is_a_verb(command):
    assert command("help").out == command("--help").out
    assert command("help", "run").out == command("run", "--help").out


@pytest.mark.parametrize(
    "words",
    [
        ("fly", "--json"),
        ("check", "--json"),
        ("--json",),
        ("run", "model.onnx", "--wings", "--json"),
        ("run", "model.onnx", "--backend", "gpu", "--json"),
        ("run", "model.onnx", "--seed", "-1", "--json"),
        ("run", "model.onnx", "--json", "--tolerance", "nan"),
        ("dump", "model.onnx", "-o", "model.onnx", "--json"),
        ("targets", "extra", "--json"),
    ],
)
def test_wrong_use_is_json_if_that_is_asked_for(command, words):
    finished = command(*words)
    assert finished.status == finished.json["exit_status"] == 2
    assert finished.err.splitlines()[0] == f"error: {finished.json['error']['what']}"


def test_an_internal_error_is_json_if_that_is_asked_for(command, tmp_path, monkeypatch):
    def broken(file):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(check, "survey", broken)
    finished = command("check", models.linear(tmp_path), "--json")
    assert finished.status == finished.json["exit_status"] == 70
    assert finished.json["error"]["kind"] == "InternalError"
    what = "internal error, ZeroDivisionError: oops: please report it; --debug shows where"
    assert finished.json["error"]["what"] == what


@pytest.mark.parametrize("words", [("dump",), ("check",), ("check", "--json")])
def test_a_full_device_is_said(tmp_path, words):
    model = models.linear(tmp_path)
    command_line = [sys.executable, "-m", "afterglow", words[0], model, *words[1:]]
    with open("/dev/full", "w") as full:
        finished = subprocess.run(
            command_line, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert finished.stderr == "error: cannot write the output: no space left on device\n"
    assert finished.returncode == 2


@pytest.mark.parametrize("verb", ["run", "profile", "bench"])
def test_a_shape_of_an_input_that_is_not_there(command, tmp_path, verb):
    command.fails(
        2,
        """
        error: the model has no input 'nosuch'
          help: it has x
        """,
        *(verb, models.linear(tmp_path), "--shapes", "nosuch:7"),
    )


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "0", "soon"])
@pytest.mark.parametrize(("verb", "option"), [("compile", "--tune"), ("bench", "--seconds")])
def test_seconds_are_finite_and_above_zero(command, verb, option, text):
    command.fails(
        2,
        f"error: {option} must be a number above 0, got '{text}'",
        *(verb, "model.onnx", option, text),
    )


@pytest.mark.parametrize("text", ["nan", "inf", "-1", "little"])
def test_a_tolerance_is_finite(command, text):
    command.fails(
        2,
        f"error: --tolerance must be a number of 0 or more, got '{text}'",
        *("run", "model.onnx", "--tolerance", text),
    )


@pytest.mark.parametrize("verb", ["run", "profile", "bench"])
def test_a_seed_is_not_negative(command, verb):
    command.fails(
        2,
        f"""
        error: invalid value for '--seed': -1 is not in the range x>=0
          help: see afterglow {verb} --help
        """,
        *(verb, "model.onnx", "--seed", "-1"),
    )


def test_inputs_for_which_there_is_no_memory(command, tmp_path):
    command.fails(
        2,
        """
        error: input 'a: f32[batch, 3]' of shape (1000000000000, 3) takes \
12,000,000,000,000 bytes, more than there is memory for
          help: give smaller extents
        """,
        *("run", models.batched(tmp_path), "--dim", f"batch={10**12}"),
    )


def test_no_model(command):
    command.fails(
        2,
        """
        error: missing argument 'MODEL'
          help: see afterglow check --help
        """,
        "check",
    )


@pytest.mark.parametrize("verb", ["bench", "check", "compile", "dump", "explain", "profile", "run"])
def test_a_file_that_is_not_there(command, verb):
    command.fails(
        2,
        """
        error: cannot read the model: no such file or directory
          in missing.onnx
        """,
        verb,
        "missing.onnx",
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--shapes", "x=1x3"), "'x=1x3' is not a shape"),
        (("--shapes", "x:1x-3"), "'x:1x-3' is not a shape"),
        (("--shapes", "1x3"), "'1x3' is not a shape"),
    ],
)
def test_a_shape_that_is_none(command, words, message):
    command.fails(
        2,
        f"""
        error: {message}
          help: write NAME:1x3x224x224, or NAME: for a scalar
        """,
        "check",
        "model.onnx",
        *words,
    )


@pytest.mark.parametrize("text", ["batch", "=2", "=", ""])
def test_a_dimension_without_a_name(command, text):
    command.fails(
        2,
        f"""
        error: {text!r} is not a dimension
          help: write NAME=8, NAME=1,4,8 or NAME=1..512
        """,
        *("check", "model.onnx", "--dim", text),
    )


@pytest.mark.parametrize(
    "text",
    ["", "two", "-1", "1.5", "1,", ",1", "1,,2", "1,b", "1..", "..4", "1..2..3", "1..2:", "²"],
)
def test_a_dimension_that_is_no_extent(command, text):
    command.fails(
        2,
        f"""
        error: dimension 'batch' cannot be {text!r}
          help: write batch=8, batch=1,4,8 for several, or batch=1..512 for a range
        """,
        *("check", "model.onnx", "--dim", f"batch={text}"),
    )


def test_a_dimension_given_twice(command, tmp_path):
    command.fails(
        2,
        "error: --dim is given twice for 'batch'",
        *("check", models.batched(tmp_path), "--dim", "batch=1", "--dim", "batch=2"),
    )


def test_an_unknown_backend(command):
    command.fails(
        2,
        """
        error: there is no backend 'gpu'
          help: there are cpu, interpreter, primitives, opencl, cuda; several with commas between; \
or auto
        """,
        *("run", "model.onnx", "--backend", "gpu"),
    )


def test_an_error_as_json(command):
    finished = command("run", "missing.onnx", "--json")
    assert finished.status == 2
    assert finished.json == {
        "error": {
            "kind": "UsageError",
            "what": "cannot read the model: no such file or directory",
            "where": "in missing.onnx",
            "excerpt": [],
            "help": "",
        },
        "exit_status": 2,
    }


def test_an_internal_error_is_one_line_unless_debugging(command, tmp_path, monkeypatch):
    def broken(file):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(check, "survey", broken)
    model = models.linear(tmp_path)
    finished = command("check", model)
    assert finished.status == 70
    assert finished.err == (
        "error: internal error, ZeroDivisionError: oops: please report it; --debug shows where\n"
    )
    assert "Traceback" in command("check", model, "--debug").err


def test_a_reader_that_stops_early_is_no_error(tmp_path):
    words = [sys.executable, "-m", "afterglow", "dump", models.linear(tmp_path)]
    read, write = os.pipe()
    os.close(read)
    finished = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert finished.stderr == ""
    assert finished.returncode == 0


def test_warnings_are_lines_without_places_in_the_source(command, monkeypatch, tmp_path):
    open_to_all = tmp_path / "cache"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("AFTERGLOW_CACHE", str(open_to_all))
    finished = command("run", models.linear(tmp_path))
    assert finished.status == 0
    assert finished.err == (
        f"warning: nothing is cached, because {open_to_all} cannot be trusted: every user "
        "may write there; set AFTERGLOW_CACHE to a folder that only you may write\n"
    )


def test_each_warning_is_said_once_and_those_of_others_as_usual(capsys):
    with warnings.catch_warnings(record=True) as others, clean_warnings(LateSession()):
        for _ in range(2):
            warn("look at this")
        warnings.warn("old", UserWarning, stacklevel=1)
    assert [str(other.message) for other in others] == ["old"]
    assert capsys.readouterr().err == "warning: look at this\n"


@pytest.mark.parametrize("verb", ["bench", "check", "compile", "dump", "explain", "profile", "run"])
def test_an_empty_name(command, verb):
    command.fails(2, "error: the name of the model's file is empty", verb, "")
