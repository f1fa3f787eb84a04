"""Tokenizers of SentencePiece as Llama's files have them: pieces with scores, and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.text.tokenizer.merging import merge
from afterglow.text.tokenizer.vocabulary import BYTE, CONTROL, Vocabulary

SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
"""How pieces spell a space."""


class SentencePieceTokenizer(Vocabulary):
    """Characters are joined to pieces, those of the highest score first.

    A character that is in no piece becomes the tokens of its bytes.
    """

    def __init__(self, metadata: TextMetadata) -> None:
        super().__init__(metadata)
        self._scores: Sequence[float] = metadata.tokenizer["scores"]
        self._adds_space = bool(metadata.tokenizer.get("add_space_prefix", True))

    def encode_plain(self, text: str, *, first: bool) -> list[int]:
        """Joined from characters; a text begins with a space if pieces were learnt so."""
        spaced = f" {text}" if first and self._adds_space else text
        found: list[int] = []
        for piece in merge(spaced.replace(" ", SPACE), self._rank):
            token = self.numbers.get(piece)
            found.extend(self._bytes(piece) if token is None else (token,))
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens; without the space that encoding has put before it."""
        text = super().decode(tokens)
        return text[1:] if self._adds_space and text.startswith(" ") else text

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token stands for; none for control tokens."""
        if self.is_silent(token):
            return b""
        piece = self.pieces[token]
        if self.kinds[token] == BYTE:
            return bytes((int(piece[3:-1], 16),))
        return piece.replace(SPACE, " ").encode("utf-8", "surrogateescape")

    def _rank(self, left: str, right: str) -> float | None:
        token = self.numbers.get(left + right)
        if token is None or self.kinds[token] in (CONTROL, BYTE):
            return None
        return -self._scores[token]

    def _bytes(self, piece: str) -> list[int]:
        """The tokens of the bytes of a piece; the unknown token where there is none."""
        unknown = self.metadata.unknown
        found = (self._byte_tokens.get(b, unknown) for b in piece.encode("utf-8", "replace"))
        return [token for token in found if token is not None]

    @cached_property
    def _byte_tokens(self) -> dict[int, int]:
        """The tokens of bytes."""
        pairs = zip(self.pieces, self.kinds, strict=True)
        return {int(p[3:-1], 16): n for n, (p, kind) in enumerate(pairs) if kind == BYTE}
