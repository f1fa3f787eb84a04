"""Tokenizers of GGUF files; the tokens expected are those of llama.cpp."""

from __future__ import annotations

import pytest

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.errors import UnsupportedError
from afterglow.text.tokenizer.bpe import BpeTokenizer
from afterglow.text.tokenizer.loading import load_tokenizer
from afterglow.text.tokenizer.merging import merge
from afterglow.text.tokenizer.pretokenize import words
from afterglow.text.tokenizer.sentencepiece import SentencePieceTokenizer
from tests.frontends.language.models import PIECES, VOCABULARY

LETTERS = VOCABULARY - 259
PIECE_TOKENIZER = {
    "kind": "sentencepiece",
    "tokens": PIECES,
    "types": [2, 3, 3] + [6] * 256 + [1] * LETTERS,
    "scores": [0.0] * 259 + [-float(n) for n in range(LETTERS)],
}
PIECE_TEXT = TextMetadata(PIECE_TOKENIZER, bos=1, eos=(2,), unknown=0, add_bos=True)
TOKENS = {
    "": [1],
    "Once upon a time": [
        *(1, 259, 82, 273, 262, 264, 259, 280, 275, 274, 273, 259, 260, 289, 268, 272, 264),
    ],
    "a<s>b</s> c": [1, 259, 260, 1, 259, 261, 2, 259, 259, 262],
    "\ttabs\r\n x  y ": [1, 259, 12, 279, 260, 261, 278, 16, 13, 259, 283, 259, 259, 284, 259],
    "½ é ☃": [1, 259, 197, 192, 259, 198, 172, 259, 229, 155, 134],
}


def bpe_text(pre: str = "gpt-2") -> TextMetadata:
    tokens = [*"abcdefghijklmnopqrstuvwxyz", "Ġ", "Ã", "©", "th", "the", "Ġthe", "<|end|>"]
    merges = ["t h", "th e", "Ġ the"]
    described = {
        "kind": "bpe",
        "tokens": tokens,
        "types": [1] * 32 + [3],
        "merges": merges,
        "pre": pre,
    }
    return TextMetadata(described, eos=(32,))


@pytest.mark.parametrize("text", TOKENS)
def test_pieces_are_joined_by_their_scores(text: str) -> None:
    tokenizer = SentencePieceTokenizer(PIECE_TEXT)
    assert tokenizer.encode(text) == TOKENS[text]
    assert tokenizer.encode(text, bos=False) == TOKENS[text][1:]


@pytest.mark.parametrize("text", ["", "Once upon a time", " x", "\ttabs\r\n x  y ", "½ é ☃ 日本"])
def test_decoding_gives_the_text_back(text: str) -> None:
    tokenizer = SentencePieceTokenizer(PIECE_TEXT)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_stream_never_cuts_a_character() -> None:
    tokenizer = SentencePieceTokenizer(PIECE_TEXT)
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in tokenizer.encode("☃é", bos=False)]
    assert pieces == [" ", "", "", "☃", "", "é"]
    assert stream.finish() == ""
    stream.push(229)
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"


def test_tokens_outside_of_the_vocabulary_have_no_text() -> None:
    tokenizer = SentencePieceTokenizer(PIECE_TEXT)
    assert tokenizer.decode([1, 99999, -1, 2, 0]) == ""
    assert tokenizer.piece(99999) == ""
    assert tokenizer.piece(1) == "<s>"


def test_bytes_are_joined_by_the_list_of_pairs() -> None:
    tokenizer = BpeTokenizer(bpe_text())
    assert tokenizer.encode("the the thé<|end|>") == [30, 31, 26, 29, 27, 28, 32]
    assert tokenizer.decode([30, 31, 26, 29, 27, 28, 32]) == "the the thé"


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["I", "'ll", " don", "'t", " 12345", " ½", "²", "  ", " é", "!!", "\n\n", "x"]),
        ("llama-bpe", ["I", "'ll", " don", "'t", " ", "123", "45", " ", "½²"]),
        ("qwen2", ["I", "'ll", " don", "'t", " ", "1", "2", "3", "4", "5", " ", "½", "²"]),
        ("smollm", ["I", "'ll", " don", "'t", " ", "1", "2", "3", "4", "5", " ", "½", "²"]),
        ("default", ["I", "'", "ll", " don", "'", "t", " ", "123", "45"]),
    ],
)
def test_words_are_cut_as_the_file_names_it(pre: str, expected: list[str]) -> None:
    text = "I'll don't 12345 ½²   é!!\n\nx"
    found = words(text, pre)
    assert "".join(found) == text
    if pre != "gpt-2":
        assert found[: len(expected)] == expected


def test_a_way_to_cut_words_that_is_not_known_is_named() -> None:
    with pytest.raises(UnsupportedError, match="cuts words in the way 'rwkv'"):
        BpeTokenizer(bpe_text("rwkv")).encode("a")


def test_long_texts_take_time_in_proportion() -> None:
    joined = merge("ab" * 50_000, lambda left, right: 0 if len(left + right) <= 2 else None)
    assert len(joined) == 50_000


def test_the_tokenizer_of_metadata_is_found_by_its_kind() -> None:
    assert isinstance(load_tokenizer(PIECE_TEXT), SentencePieceTokenizer)
    assert isinstance(load_tokenizer(bpe_text()), BpeTokenizer)
    assert load_tokenizer(TextMetadata()) is None
