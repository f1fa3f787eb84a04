"""The tokens of a model: their texts, their kinds, and where special ones are in a text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import cached_property

from afterglow.runtime.text_metadata import TextMetadata

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of tokens, as GGUF files number them."""
_WHOLE = (CONTROL, USER_DEFINED)


class Vocabulary:
    """Base of tokenizers whose tokens stand for bytes each."""

    def __init__(self, metadata: TextMetadata) -> None:
        self.metadata = metadata
        self.pieces: Sequence[str] = metadata.tokenizer["tokens"]
        self.kinds: Sequence[int] = metadata.tokenizer["types"]

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""
        return len(self.pieces)

    def piece(self, token: int) -> str:
        """A token as the vocabulary spells it; empty if it has none of this number."""
        return self.pieces[token] if 0 <= token < len(self.pieces) else ""

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without that of control tokens."""
        return b"".join(map(self.bytes_of, tokens)).decode("utf-8", "replace")

    def stream(self) -> ByteStream:
        """What turns tokens into text as they come."""
        return ByteStream(self)

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        """The tokens of a text; texts of control tokens become those.

        `bos` says whether a token marks the beginning; None does as the model was trained.
        """
        metadata = self.metadata
        begins = metadata.add_bos if bos is None else bos
        found = [metadata.bos] if begins and metadata.bos is not None else []
        follows_special = True
        for part, token in self._parts(text):
            found.extend(self.encode_plain(part, first=follows_special) if part else ())
            if token is not None:
                found.append(token)
            follows_special = token is not None
        if metadata.add_eos and metadata.eos:
            found.append(metadata.eos[0])
        return found

    def encode_plain(self, text: str, *, first: bool) -> list[int]:
        """The tokens of a text without special tokens; `first`, it begins the text."""
        raise NotImplementedError

    def bytes_of(self, token: int) -> bytes:
        """The bytes that a token stands for; none for control tokens."""
        raise NotImplementedError

    def is_silent(self, token: int) -> bool:
        """Whether a token stands for no text."""
        outside = not 0 <= token < len(self.pieces)
        return outside or self.kinds[token] in (CONTROL, UNKNOWN, UNUSED)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The tokens by their texts; of equal ones the first."""
        last = len(self.pieces) - 1
        return dict(zip(reversed(self.pieces), range(last, -1, -1), strict=True))

    def _parts(self, text: str) -> Iterator[tuple[str, int | None]]:
        """Plain parts of a text, each with the special token behind it."""
        start = 0
        for match in self._special.finditer(text) if self._special is not None else ():
            yield text[start : match.start()], self.numbers[match.group()]
            start = match.end()
        yield text[start:], None

    @cached_property
    def _special(self) -> re.Pattern[str] | None:
        """Matches the texts of special tokens, longer ones first."""
        pairs = zip(self.pieces, self.kinds, strict=True)
        texts = {piece for piece, kind in pairs if kind in _WHOLE and piece}
        ordered = sorted(texts, key=lambda text: (-len(text), text))
        return re.compile("|".join(map(re.escape, ordered))) if ordered else None


class ByteStream:
    """Text of tokens as they come; bytes wait until they are whole characters."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """The text that is certain after one more token."""
        return self._decoder.decode(self._vocabulary.bytes_of(token))

    def finish(self) -> str:
        """The text that is left when no more tokens come."""
        return self._decoder.decode(b"", final=True)
