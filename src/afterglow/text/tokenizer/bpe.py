"""Byte-level BPE as GPT-2 has it: pieces of bytes, joined by a list of pairs."""

from __future__ import annotations

from functools import cache, cached_property

from afterglow.runtime.text_metadata import TextMetadata
from afterglow.runtime.word_patterns import TAKES_WHOLE_WORDS
from afterglow.text.tokenizer.merging import merge
from afterglow.text.tokenizer.pretokenize import words
from afterglow.text.tokenizer.vocabulary import NORMAL, Vocabulary

_MOST_REMEMBERED = 1 << 16
"""How many words are remembered with their tokens."""


class BpeTokenizer(Vocabulary):
    """Within each word, bytes are joined pair by pair, those of the first pairs listed first."""

    def __init__(self, metadata: TextMetadata) -> None:
        super().__init__(metadata)
        self._pre = str(metadata.tokenizer.get("pre", "default"))
        self._known: dict[str, list[int]] = {}

    def encode_plain(self, text: str, *, first: bool) -> list[int]:
        """Word by word."""
        return [token for word in words(text, self._pre) for token in self._word(word)]

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token stands for; none for control tokens."""
        if self.is_silent(token):
            return b""
        piece = self.pieces[token]
        if self.kinds[token] != NORMAL:
            return piece.encode("utf-8", "surrogateescape")
        spelled = _bytes_spelled()
        return b"".join(
            bytes((spelled[c],)) if c in spelled else c.encode("utf-8", "replace") for c in piece
        )

    def _word(self, word: str) -> list[int]:
        found = self._known.get(word)
        if found is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            found = self._known[word] = self._tokens_of(word)
        return found

    def _tokens_of(self, word: str) -> list[int]:
        spelled = "".join(_SPELLINGS[byte] for byte in word.encode("utf-8", "surrogateescape"))
        if self._pre in TAKES_WHOLE_WORDS and spelled in self.numbers:
            return [self.numbers[spelled]]
        found: list[int] = []
        for piece in merge(spelled, lambda left, right: self._ranks.get((left, right))):
            token = self.numbers.get(piece)
            letters = (self.numbers.get(letter) for letter in piece)
            found.extend(n for n in (letters if token is None else (token,)) if n is not None)
        return found

    @cached_property
    def _ranks(self) -> dict[tuple[str, str], int]:
        """The place of each pair in the list."""
        pairs = (line.partition(" ") for line in self.metadata.tokenizer["merges"])
        return {(left, right): n for n, (left, _, right) in enumerate(pairs)}


def _spellings() -> list[str]:
    """The character that pieces have for each byte: its own if it can be seen, else another."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in seen else next(others)) for byte in range(256)]


_SPELLINGS = _spellings()


@cache
def _bytes_spelled() -> dict[str, int]:
    """The byte that each character stands for."""
    return {character: byte for byte, character in enumerate(_SPELLINGS)}
