"""Bundles of language models: the same tokens from C as from Python."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.types import Array
from tests.backends.cpu.bundle.files.building import compiler, export, run
from tests.frontends.gguf.files import gguf_bytes
from tests.frontends.language.models import CONTEXT, PIECES, llama_metadata, llama_weights

PROMPT = "the thing"
ENCODED = ["<s>", "▁", "th", "e", "▁", "th", "ing"]
FLAGS = ("-std=c99", "-pedantic", "-O1", "-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a tiny model, with its program built."""
    command = compiler()
    folder = tmp_path_factory.mktemp("language")
    export(tiny(), folder, "tiny")
    sources = ["generate.c", "tiny_text.c", "pool.c", "tiny.o"]
    build(command, folder, sources)
    return folder


def tiny() -> bytes:
    return gguf_bytes(llama_metadata(), llama_weights())


def build(command: tuple[str, ...], folder: Path, sources: list[str]) -> None:
    line = [*command, *FLAGS, "-o", "generate", *sources, "-lm", "-pthread"]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def numbers(folder: Path, *arguments: object) -> list[int]:
    """The tokens that the program generates."""
    return [int(word) for word in run(folder / "generate", *arguments, "--numbers").split()]


def greedy(prompt: list[int], count: int) -> list[int]:
    """The likeliest tokens, one after the other, from Python."""
    model, made, position = ag.compile(tiny()), list(prompt), 0
    while len(made) < len(prompt) + count:
        given = np.int32(made[position:])
        places = np.arange(position, len(made), dtype=np.int32)
        last = np.int32([len(given) - 1])
        made.append(int(model(given, places, np.zeros_like(given), last)[0].argmax()))
        position = len(made) - 1
    return made[len(prompt) :]


def until_the_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(2)] if 2 in tokens else tokens


def test_greedy_tokens_are_those_of_python(folder: Path) -> None:
    prompt = [PIECES.index(piece) for piece in ENCODED]
    assert numbers(folder, PROMPT, "--tokens", 40) == until_the_end(greedy(prompt, 40))


def test_characters_without_a_piece_become_bytes_and_special_tokens_are_found(
    folder: Path,
) -> None:
    pieces = ["<s>", "▁t", "<0xC3>", "<0xA9>", "<s>", "▁", "th", "e"]
    prompt = [PIECES.index(piece) for piece in pieces]
    assert numbers(folder, "té<s>the", "--tokens", 12) == until_the_end(greedy(prompt, 12))


def test_generating_ends_where_the_context_is_full(folder: Path) -> None:
    assert len(numbers(folder, PROMPT, "--tokens", 1000)) <= CONTEXT - len(ENCODED) + 1


def test_threads_change_no_token(folder: Path) -> None:
    alone = numbers(folder, PROMPT, "--tokens", 30)
    assert numbers(folder, PROMPT, "--tokens", 30, "--threads", 2) == alone


def test_a_seed_decides_what_is_drawn(folder: Path) -> None:
    options = ("--tokens", 20, "--temperature", 2, "--top-k", 50, "--top-p", 0.9, "--seed")
    first = numbers(folder, PROMPT, *options, 1)
    assert numbers(folder, PROMPT, *options, 1) == first
    assert numbers(folder, PROMPT, *options, 2) != first
    likeliest = numbers(folder, PROMPT, "--tokens", 20)
    assert numbers(folder, PROMPT, "--tokens", 20, "--temperature", 2, "--top-k", 1) == likeliest
    assert numbers(folder, PROMPT, "--tokens", 20, "--temperature", 9, "--top-p", 1e-6) == likeliest


@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 2.0, "min_p": 0.5, "seed": 1},
        {"repetition_penalty": 1.5},
        {"temperature": 1.5, "top_k": 60, "min_p": 0.25, "repetition_penalty": 1.25, "seed": 2},
    ],
)
def test_what_is_drawn_is_what_python_draws(folder: Path, options: dict[str, Any]) -> None:
    given = [part for k, v in options.items() for part in (f"--{k.replace('_', '-')}", v)]
    expected = ag.text.Generator(ag.compile(tiny())).generate(PROMPT, max_new_tokens=30, **options)
    assert numbers(folder, PROMPT, "--tokens", 30, *given) == list(expected.tokens)


def test_what_cannot_be_is_said(folder: Path) -> None:
    for name in ("--temperature", "--min-p", "--repetition-penalty"):
        assert "sampling parameter" in run(folder / "generate", name, -1, status=1)
    long = "the " * 4 * CONTEXT
    assert "too long" in run(folder / "generate", long, status=1)


def test_a_damaged_vocabulary_is_refused(folder: Path) -> None:
    file = folder / "tiny.vocabulary"
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    try:
        for damaged in (whole[:-1], b"", *(_changed(whole, rng) for _ in range(20))):
            file.write_bytes(damaged)
            assert "damaged" in run(folder / "generate", status=1)
    finally:
        file.write_bytes(whole)


def _changed(whole: bytes, rng: np.random.Generator) -> bytes:
    """A table with a large number among its first words, which say how long it is."""
    words: Array = np.frombuffer(whole, np.uint8).copy()
    words[int(rng.integers(0, 8)) * 4 + 3] ^= 0x40
    return words.tobytes()
