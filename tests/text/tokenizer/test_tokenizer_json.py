"""Tokenizers of Hugging Face, through the package `tokenizers`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from afterglow.support.errors import ModelError, UnsupportedError, UsageError
from afterglow.text.tokenizer.tokenizer_json import JsonTokenizer, load_tokenizer_file


def byte_tokenizer() -> str:
    """A token for each byte, in the manner of GPT-2, and one that begins texts."""
    tokenizers = pytest.importorskip("tokenizers", reason="not installed: afterglow[text]")
    alphabet = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate(alphabet)}
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.add_special_tokens(["<s>"])
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 256)]
    )
    return made.to_str()


def test_texts_become_tokens_and_back() -> None:
    tokenizer = JsonTokenizer(byte_tokenizer())
    tokens = tokenizer.encode("größe 你好")
    assert tokens[0] == 256
    assert tokenizer.encode("größe 你好", bos=False) == tokens[1:]
    assert tokenizer.decode(tokens) == "größe 你好"
    assert (tokenizer.vocabulary, tokenizer.piece(256)) == (257, "<s>")


def test_no_piece_of_a_stream_ends_within_a_character() -> None:
    tokenizer = JsonTokenizer(byte_tokenizer())
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in tokenizer.encode("aé你🙂!")]
    assert [piece for piece in pieces if piece] == ["a", "é", "你", "🙂", "!"]
    assert stream.finish() == ""
    stream = tokenizer.stream()
    cut = [stream.push(token) for token in tokenizer.encode("a你", bos=False)[:-1]]
    assert cut == ["a", "", ""]
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"


def test_files_that_are_no_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="not installed: afterglow[text]")
    with pytest.raises(UsageError, match=r"cannot read .*tokenizer\.json: no such file"):
        load_tokenizer_file(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": 3}')
    with pytest.raises(ModelError, match=r"tokenizer\.json is not a tokenizer\.json: "):
        load_tokenizer_file(tmp_path)


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UnsupportedError) as caught:
        JsonTokenizer("{}")
    assert str(caught.value) == (
        "error: tokenizer.json needs the package tokenizers\n  help: pip install 'afterglow[text]'"
    )
