"""The vocabulary of a language model as a table that C code reads where it lies.

Everything is 32-bit little-endian words, then the bytes that tokens stand for. `source.py` has the
code that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.backends.cpu.bundle.files.language.pairs import NONE, SPELLED, Pairs, pairs_of
from afterglow.runtime.text_metadata import TextMetadata
from afterglow.runtime.word_patterns import WORD_PATTERNS
from afterglow.types import Array

MAGIC = 0x43564741
VERSION = 2
KINDS = ("sentencepiece", "bpe")
"""Kinds of tokenizers that a table is made for."""
_DECODED_ONLY = len(KINDS)
"""The kind of those by which texts are not encoded: they cut words in an unknown way."""
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
"""Kinds of tokens, as GGUF files number them."""
_SILENT = (_UNKNOWN, _CONTROL, _UNUSED)
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def vocabulary_table(metadata: TextMetadata) -> bytes:
    """The table of a model's tokenizer."""
    tokenizer = metadata.tokenizer
    pieces, kinds = tokenizer["tokens"], [int(kind) for kind in tokenizer["types"]]
    texts = [_bytes_of(piece, kind, tokenizer) for piece, kind in zip(pieces, kinds, strict=True)]
    is_bpe = tokenizer["kind"] == "bpe"
    pairs = pairs_of(pieces, texts, tokenizer["merges"]) if is_bpe else Pairs()
    found = pairs.found if is_bpe else _found_by_text(texts, kinds)
    special = [n for n, kind in enumerate(kinds) if kind in (_CONTROL, _USER_DEFINED) and texts[n]]
    special.sort(key=lambda n: (-len(texts[n]), texts[n]))
    every = [*texts, *pairs.others]
    unknown = None if is_bpe else metadata.unknown
    header = [
        MAGIC,
        VERSION,
        _kind(metadata),
        len(texts),
        len(found),
        len(special),
        len(metadata.eos),
        sum(map(len, every)),
        _flags(metadata),
        NONE if metadata.bos is None else metadata.bos,
        NONE if unknown is None else unknown,
        len(pairs.others),
        len(pairs.pairs),
    ]
    scores = np.array(tokenizer.get("scores") or [0.0] * len(texts), np.float32)
    words = [
        _words(header),
        _words(metadata.eos),
        _words(np.cumsum([0, *map(len, every)])),
        _words([kind in _SILENT for kind in kinds]),
        scores.astype("<f4").view("<u4"),
        _words(found),
        _words(special),
        _words(pairs.letters if is_bpe else _byte_tokens(texts, kinds)),
        _words(pairs.other_tokens),
        _words(np.array(pairs.pairs, np.int64).reshape(-1, 3).T.ravel()),
    ]
    return np.concatenate(words).tobytes() + b"".join(every)


def _kind(metadata: TextMetadata) -> int:
    """The number of the kind of tokenizers."""
    tokenizer = metadata.tokenizer
    cuts = tokenizer["kind"] != "bpe" or tokenizer.get("pre", "default") in WORD_PATTERNS
    return KINDS.index(tokenizer["kind"]) if cuts else _DECODED_ONLY


def _flags(metadata: TextMetadata) -> int:
    """Bits: a space before texts, a token before them, one behind them, signs for spaces."""
    has_signs: bool = metadata.tokenizer["kind"] == "sentencepiece"
    prefix = bool(has_signs and metadata.tokenizer.get("add_space_prefix", True))
    return prefix | metadata.add_bos << 1 | metadata.add_eos << 2 | has_signs << 3


def _words(numbers: Sequence[int] | Array) -> Array:
    return np.asarray(numbers, np.int64).astype("<u4")


def _bytes_of(piece: str, kind: int, tokenizer: object) -> bytes:
    """The bytes of a token; of one that stands for no text, its own text."""
    if kind == _BYTE:
        return bytes((int(piece[3:-1], 16),))
    assert isinstance(tokenizer, dict)
    if tokenizer["kind"] == "bpe" and kind == _NORMAL:
        return b"".join(
            bytes((SPELLED[c],)) if c in SPELLED else c.encode("utf-8", "replace") for c in piece
        )
    text = piece.replace(_SPACE, " ") if tokenizer["kind"] == "sentencepiece" else piece
    return text.encode("utf-8", "surrogateescape")


def _found_by_text(texts: Sequence[bytes], kinds: Sequence[int]) -> list[int]:
    """The tokens that text can become, in the order of their bytes; of equal ones the first."""
    first: dict[bytes, int] = {}
    for number, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        if kind not in (_CONTROL, _BYTE) and text:
            first.setdefault(text, number)
    return [first[text] for text in sorted(first)]


def _byte_tokens(texts: Sequence[bytes], kinds: Sequence[int]) -> list[int]:
    found = [NONE] * 256
    for number, (text, kind) in enumerate(zip(texts, kinds, strict=True)):
        if kind == _BYTE:
            found[text[0]] = number
    return found
