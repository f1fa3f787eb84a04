"""The examples that the help of each subcommand shows do work."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from afterglow.cli import generate
from afterglow.cli.verbs import VERBS
from afterglow.text import Generator
from tests.cli.test_explain import DIGITS
from tests.text.fakes import FakeDecoder, LetterTokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the examples are about."""
    made = tmp_path_factory.mktemp("examples")
    shutil.copy(DIGITS, made)
    images = np.random.default_rng(0).random((10, 1, 8, 8), np.float32)
    np.savez(made / "images.npz", image=images)
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_has_examples(command, verb):
    shown = command(verb, "--help").out
    assert VERBS[verb].examples
    for example in VERBS[verb].examples:
        assert example in shown
    assert shown.index("Examples:") < shown.index("Options:")


@pytest.mark.parametrize(
    "verb", sorted(VERBS, key=lambda verb: verb not in ("compile", "quantize"))
)
def test_examples_work(command, verb, folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(generate, "Generator", lambda *_, **options: small_generator())
    for example in VERBS[verb].examples:
        _, *words = shlex.split(example)
        finished = command(*quickly(words))
        assert finished.status == 0, finished.err


def small_generator() -> Generator:
    return Generator(FakeDecoder(), tokenizer=LetterTokenizer())


def quickly(words: list[str]) -> list[str]:
    """The same command, for less time."""
    return ["0.05" if words[i - 1] == "--seconds" else word for i, word in enumerate(words)]
