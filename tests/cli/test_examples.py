"""The help of every verb has examples, and the first of each does what it says."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click
import numpy as np
import pytest

from afterglow.cli.main import cli
from afterglow.cli.verbs import VERBS

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
ELSEWHERE = {
    "generate": "needs a language model",
    "bench": "times",
    "devices": "measures",
    "serve": "runs until it is told to end",
}
"""Verbs whose examples are not run here: tests of their own call them."""


def examples(verb: str) -> list[str]:
    """The command lines in the help of a verb."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    found = (command.help or "").partition("Examples:")[2]
    return [line.strip() for line in found.splitlines() if line.strip()]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb):
    assert examples(verb)
    assert all(line.startswith(f"afterglow {verb}") for line in examples(verb))


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ELSEWHERE])
def test_the_first_example_works(command, verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(DIGITS / "digits.onnx", "model.onnx")
    images = np.load(DIGITS / "test_images.npz")["images"]
    np.save("samples.npy", images[:8, None].astype(np.float32))
    if "onnxruntime" in examples(verb)[0]:
        pytest.importorskip("onnxruntime")
    finished = command(*shlex.split(examples(verb)[0])[1:])
    assert finished.status == 0, finished.err
