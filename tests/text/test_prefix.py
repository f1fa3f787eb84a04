"""Prefixes: computed once, kept, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from afterglow.support.errors import AfterglowError
from afterglow.text import Generator
from tests.text.fakes import FakeDecoder, LetterTokenizer, greedy

SYSTEM = [0, *(i * 7 % 31 for i in range(30))]


def test_prompts_begin_behind_a_kept_prefix() -> None:
    decoder = FakeDecoder(chunk=64)
    made = Generator(decoder)
    made.keep_prefix(SYSTEM)
    made.generate([9, 9, 9], 2)
    decoder.rows = 0
    found = made.generate([*SYSTEM, 4, 5], 3)
    assert decoder.rows == 2 + 2
    assert list(found.tokens) == greedy(decoder, [*SYSTEM, 4, 5], 3)
    made.drop_prefixes()
    made.generate([9, 9, 9], 2)
    decoder.rows = 0
    made.generate([*SYSTEM, 4, 5], 3)
    assert decoder.rows == len(SYSTEM) + 2 + 2


def test_a_saved_prefix_is_as_good(tmp_path: Path) -> None:
    Generator(FakeDecoder(), tokenizer=LetterTokenizer()).save_prefix("once", tmp_path / "p.npz")
    decoder = FakeDecoder(sequences=2)
    made = Generator(decoder, tokenizer=LetterTokenizer())
    made.load_prefix(tmp_path / "p.npz")
    found = made.generate(["once more", "once"], 4)
    assert [list(each.tokens) for each in found] == [
        greedy(decoder, each.prompt, 4) for each in found
    ]


def test_files_that_are_no_prefix_of_the_model(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    Generator(FakeDecoder(width=6)).save_prefix(SYSTEM, path)
    messages = []
    made = Generator(FakeDecoder())

    def load() -> None:
        with pytest.raises(AfterglowError) as caught:
            made.load_prefix(path)
        messages.append(caught.value.what.replace(str(tmp_path), "DIR"))

    load()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    load()
    np.savez(path, caches=np.zeros(3))
    load()
    Generator(FakeDecoder(vocabulary=99)).save_prefix([98], path)
    load()
    Generator(FakeDecoder(context=99)).save_prefix([1] * 70, path)
    load()
    path.unlink()
    load()
    assert messages == [
        "the prefix is of another model: its caches have other names, types or shapes",
        "DIR/p.npz is not the file of a prefix, or it is damaged",
        "DIR/p.npz is not the file of a prefix: it has no tokens",
        "DIR/p.npz contains token 98, which is not in the vocabulary",
        "DIR/p.npz has 70 tokens, the model a context of 64",
        "cannot read DIR/p.npz: no such file or directory",
    ]
