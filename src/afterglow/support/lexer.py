"""Tokens of the text forms, with the line each stands on."""

from __future__ import annotations

import json
import re

from afterglow.support.errors import ParseError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.names import PLAIN_NAME

_TOKEN = re.compile(
    rf"""
      (?P<space>[ \t\r]+|;[^\n]*)
    | (?P<line>\n)
    | (?P<name>[%@](?:{PLAIN_NAME}|"(?:[^"\\\n]|\\.)*"))
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<number>-?(?:\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?|inf\b|nan\b))
    | (?P<word>[A-Za-z_][A-Za-z0-9_\-]*(?:::[A-Za-z_][A-Za-z0-9_]*)?)
    | (?P<mark>//|\.\.|[{{}}()\[\]=,:;?*+%\-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A piece of text: its kind (name, string, number, word, mark, end), itself, and its line."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Split a text; comments run from `;` to the end of the line, save inside types."""
    tokens: list[Token] = []
    line, position, depth = 1, 0, 0
    while position < len(text):
        if depth and text[position] == ";":
            tokens.append(Token("mark", ";", line))
            position += 1
            continue
        match = _TOKEN.match(text, position)
        if match is None:
            raise ParseError(f"unexpected character {text[position]!r}", where=f"in line {line}")
        position = match.end()
        kind = match.lastgroup or ""
        if kind == "line":
            line += 1
        elif kind != "space":
            depth += {"[": 1, "]": -1}.get(match.group(), 0)
            tokens.append(Token(kind, match.group(), line))
    tokens.append(Token("end", "end of text", line))
    return tokens


class TokenStream:
    """Tokens to be taken one after the other, with errors that say what was expected."""

    def __init__(self, text: str) -> None:
        self._tokens = tokenize(text)
        self._position = 0
        self.extents: dict[str, int] = {}
        """What the names of dimensions stand for, once the text has declared them."""

    @property
    def next(self) -> Token:
        """The token that will be taken next."""
        return self._tokens[self._position]

    def take(self, kind: str, what: str = "") -> str:
        """Take a token of a kind and return its text."""
        token = self.next
        if token.kind != kind:
            raise self.error(f"expected {what or 'a ' + kind}, found {token.text!r}")
        self._position += 1
        return token.text

    def accept(self, text: str) -> bool:
        """Take the next token if it is `text`."""
        if self.next.text == text and self.next.kind != "string":
            self._position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        """Take the next token, which must be `text`."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}, found {self.next.text!r}")

    def name(self, sigil: str, what: str) -> str:
        """Take a name with a sigil and return it bare."""
        text = self.take("name", what)
        if text[0] not in sigil:
            raise self.error(f"expected {what}, found {text!r}")
        return json.loads(text[1:]) if text[1] == '"' else text[1:]

    def integer(self) -> int:
        """Take an integer."""
        text = self.take("number", "an integer")
        try:
            return int(text)
        except ValueError:
            raise self.error(f"expected an integer, found {text!r}") from None

    def error(self, what: str) -> ParseError:
        """An error at the next token."""
        return ParseError(what, where=f"in line {self.next.line}")
