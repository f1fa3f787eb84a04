"""What a generator needs of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


class TextStream(Protocol):
    """Turns tokens into text as they come, and never cuts a character in two."""

    def push(self, token: int) -> str:
        """The text that is certain after one more token."""

    def finish(self) -> str:
        """The text that is left when no more tokens come."""


@runtime_checkable
class Tokenizer(Protocol):
    """Turns texts into tokens and back."""

    @property
    def vocabulary(self) -> int:
        """The number of tokens there are."""

    def encode(self, text: str, *, bos: bool | None = None) -> list[int]:
        """The tokens of a text; texts of control tokens become those.

        `bos` says whether a token marks the beginning; None does as the model was trained.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without that of control tokens."""

    def piece(self, token: int) -> str:
        """A token as the vocabulary spells it, such as "<s>"."""

    def stream(self) -> TextStream:
        """What turns tokens into text as they come."""
