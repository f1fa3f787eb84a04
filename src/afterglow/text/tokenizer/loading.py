"""The tokenizer that a model brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.support.errors import UnsupportedError
from afterglow.text.tokenizer.bpe import BpeTokenizer
from afterglow.text.tokenizer.sentencepiece import SentencePieceTokenizer
from afterglow.text.tokenizer.tokenizer_json import JsonTokenizer
from afterglow.text.tokens import Tokenizer


def _of_json(metadata: TextMetadata) -> Tokenizer:
    return JsonTokenizer(str(metadata.tokenizer["json"]))


KINDS: Mapping[str, Callable[[TextMetadata], Tokenizer]] = {
    "tokenizer.json": _of_json,
    "sentencepiece": SentencePieceTokenizer,
    "bpe": BpeTokenizer,
}
"""What makes a tokenizer of metadata, by its kind."""


def load_tokenizer(metadata: TextMetadata) -> Tokenizer | None:
    """The tokenizer that metadata describe; None if they describe none."""
    described: Mapping[str, Any] = metadata.tokenizer
    if not described:
        return None
    make = KINDS.get(str(described.get("kind")))
    if make is None:
        raise UnsupportedError(
            f"a tokenizer of kind {described.get('kind')!r} is not supported",
            help=f"there are {', '.join(map(repr, KINDS))}; give one with tokenizer=",
        )
    return make(metadata)
