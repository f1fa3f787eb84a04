"""Caffe2's text files (.pbtxt): nets read from protobuf's text format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from afterglow.frontends.caffe2.messages import SCHEMA, Fields, Kind, Net, net_of
from afterglow.support.errors import ModelError

_TOKEN = re.compile(
    r"""(?P<space>(?:\s|\#[^\n]*)+)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[-+]?[A-Za-z_0-9.][A-Za-z_0-9.+-]*)
    |(?P<mark>[{}<>\[\]:;,])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", re.DOTALL)
_ESCAPED = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}
_DIGITS = frozenset("0123456789.")
_CLOSING = {"{": "}", "<": ">"}
_MOST_NESTED = 32
_MOST_DIGITS = 400
"""Digits of a number, at most: more would take long to read."""


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


def read_text_net(data: memoryview) -> Net:
    """The net that a text describes."""
    try:
        text = bytes(data).decode()
    except UnicodeDecodeError:
        raise ModelError("the file is not a Caffe2 net: it is not UTF-8 text") from None
    return net_of(_TextReader(text).message("NetDef", "", 0))


class _TextReader:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokens()
        self.token = next(self.tokens)

    def _tokens(self) -> Iterator[_Token]:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise self._wrong(position, f"{self.text[position]!r} stands in no text of a net")
            if match.lastgroup != "space":
                yield _Token(str(match.lastgroup), match[0], position)
            position = match.end()
        while True:
            yield _Token("end", "", position)

    def _wrong(self, position: int, why: str) -> ModelError:
        line = self.text.count("\n", 0, position) + 1
        return ModelError(f"the file is not a Caffe2 net: {why}", where=f"in line {line}")

    def _next(self) -> _Token:
        token, self.token = self.token, next(self.tokens)
        return token

    def _takes(self, *marks: str) -> bool:
        """Whether one of these marks comes next, which is passed then."""
        found = self.token.kind == "mark" and self.token.text in marks
        if found:
            self._next()
        return found

    def message(self, name: str, closing: str, depth: int) -> Fields:
        """The fields of a message, up to the mark that closes it."""
        schema = dict(SCHEMA.get(name, {}).values())
        found: Fields = {}
        while not self._ends(closing):
            token = self._next()
            if token.kind != "word":
                raise self._wrong(token.start, f"a field must have a name, not {token.text!r}")
            kind = schema.get(token.text)
            found.setdefault(token.text, []).extend(self._values(kind, depth))
            self._takes(";", ",")
        return found

    def _ends(self, closing: str) -> bool:
        if self.token.kind == "end":
            if closing:
                raise self._wrong(self.token.start, f"it ends before a {closing!r}")
            return True
        return bool(closing) and self._takes(closing)

    def _values(self, kind: Kind | str | None, depth: int) -> list[Any]:
        """What a field is given: a message, a value, or a list of them."""
        if depth > _MOST_NESTED:
            raise self._wrong(self.token.start, f"messages nest more than {_MOST_NESTED} deep")
        self._takes(":")
        if not self._takes("["):
            return [self._value(kind, depth)]
        values: list[Any] = []
        while not self._takes("]"):
            values.append(self._value(kind, depth))
            self._takes(",")
        return values

    def _value(self, kind: Kind | str | None, depth: int) -> Any:
        token = self._next()
        if token.kind == "mark" and token.text in _CLOSING:
            name = kind if isinstance(kind, str) else ""
            fields = self.message(name, _CLOSING[token.text], depth + 1)
            if isinstance(kind, Kind) and kind is not Kind.MESSAGE:
                raise self._wrong(token.start, f"{kind.value} is needed, not a message")
            return fields
        if token.kind not in ("text", "word"):
            raise self._wrong(token.start, f"a value is needed, not {token.text!r}")
        return self._scalar(token, kind)

    def _scalar(self, token: _Token, kind: Kind | str | None) -> Any:
        is_text = token.kind == "text"
        if kind is None:
            return self._joined(token) if is_text else token.text
        if kind in (Kind.TEXT, Kind.BYTES) and is_text:
            data = self._joined(token)
            return data if kind is Kind.BYTES else data.decode("utf-8", "replace")
        if kind in (Kind.INT, Kind.FLOAT) and not is_text:
            return self._number(token, kind)
        what = kind.value if isinstance(kind, Kind) else "a message"
        raise self._wrong(token.start, f"{what} is needed, not {token.text[:40]}")

    def _joined(self, token: _Token) -> bytes:
        """Texts that follow each other are one."""
        parts = [_unescaped(token.text)]
        while self.token.kind == "text":
            parts.append(_unescaped(self._next().text))
        return b"".join(parts)

    def _number(self, token: _Token, kind: Kind | str) -> int | float:
        text = token.text
        try:
            if len(text) > _MOST_DIGITS:
                raise ValueError
            if kind is Kind.FLOAT:
                return float(text.removesuffix("f") if text[-2:-1] in _DIGITS else text)
            return _integer(text)
        except ValueError:
            why = f"{text[:40]!r} is not {'a number' if kind is Kind.FLOAT else 'an integer'}"
            raise self._wrong(token.start, why) from None


def _integer(text: str) -> int:
    """A whole number of 64 bits; truth values are numbers, too."""
    number = {"true": 1, "false": 0}.get(text)
    number = (
        int(text, 0 if text.lower().lstrip("+-").startswith("0x") else 10)
        if number is None
        else number
    )
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError
    return number


def _unescaped(text: str) -> bytes:
    return _ESCAPE.sub(_unescape, text[1:-1].encode())


def _unescape(match: re.Match[bytes]) -> bytes:
    what = match[1]
    if what[:1].isdigit():
        return bytes([int(what, 8) & 0xFF]) if what.isdigit() and max(what) < ord("8") else what
    if what.startswith(b"x") and len(what) > 1:
        return bytes([int(what[1:], 16)])
    return _ESCAPED.get(what, what)
