"""The vocabulary of a language model as a table that C code reads where it lies.

Everything is 32-bit little-endian words, then the bytes that tokens stand for. `source.py` has the
code that reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.types import Array

MAGIC = 0x43564741
VERSION = 1
KINDS = ("sentencepiece", "bpe")
"""Kinds of tokenizers that a table is made for."""
NONE = 0xFFFFFFFF
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
"""Kinds of tokens, as GGUF files number them."""
_SILENT = (_UNKNOWN, _CONTROL, _UNUSED)
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


def vocabulary_table(metadata: TextMetadata) -> bytes:
    """The table of a model's tokenizer."""
    tokenizer = metadata.tokenizer
    pieces, kinds = tokenizer["tokens"], [int(kind) for kind in tokenizer["types"]]
    texts = [_bytes_of(piece, kind, tokenizer) for piece, kind in zip(pieces, kinds, strict=True)]
    found = _found_by_text(texts, kinds)
    special = [n for n, kind in enumerate(kinds) if kind in (_CONTROL, _USER_DEFINED) and texts[n]]
    special.sort(key=lambda n: (-len(texts[n]), texts[n]))
    flags = bool(tokenizer.get("add_space_prefix", True)) | metadata.add_bos << 1
    header = [
        MAGIC,
        VERSION,
        KINDS.index(tokenizer["kind"]),
        len(texts),
        len(found),
        len(special),
        len(metadata.eos),
        sum(map(len, texts)),
        flags,
        NONE if metadata.bos is None else metadata.bos,
        NONE if metadata.unknown is None else metadata.unknown,
    ]
    scores = np.array(tokenizer.get("scores") or [0.0] * len(texts), np.float32)
    words = [
        _words(header),
        _words(metadata.eos),
        _words(np.cumsum([0, *map(len, texts)])),
        _words([kind in _SILENT for kind in kinds]),
        scores.astype("<f4").view("<u4"),
        _words(found),
        _words(special),
        _words(_byte_tokens(texts, kinds)),
    ]
    return np.concatenate(words).tobytes() + b"".join(texts)


def _words(numbers: Sequence[int] | Array) -> Array:
    return np.asarray(numbers, np.int64).astype("<u4")


def _bytes_of(piece: str, kind: int, tokenizer: object) -> bytes:
    """The bytes of a token; of one that stands for no text, its own text."""
    if kind == _BYTE:
        return bytes((int(piece[3:-1], 16),))
    assert isinstance(tokenizer, dict)
    if tokenizer["kind"] == "bpe" and kind == _NORMAL:
        spelled = _spelled_bytes()
        return b"".join(
            bytes((spelled[c],)) if c in spelled else c.encode("utf-8", "replace") for c in piece
        )
    text = piece.replace(_SPACE, " ") if tokenizer["kind"] == "sentencepiece" else piece
    return text.encode("utf-8", "surrogateescape")


def _spelled_bytes() -> dict[str, int]:
    """The byte that each character of a byte-level piece stands for."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {chr(byte if byte in seen else next(others)): byte for byte in range(256)}


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
