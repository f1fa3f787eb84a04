"""The lines of a planned program, as far as the rules need them.

A reader of its own, on purpose: it shares nothing with the parser, so that a fault there cannot
hide one here. What an op computes, and its attributes, are skipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

_ELEMENT_BYTES = {
    **dict.fromkeys(("f64", "i64", "u64", "c64", "str"), 8),
    **dict.fromkeys(("f32", "i32", "u32"), 4),
    **dict.fromkeys(("f16", "bf16", "i16", "u16"), 2),
    **dict.fromkeys(("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f8e8m0", "f4e2m1"), 1),
    **dict.fromkeys(("i8", "i4", "i2", "u8", "u4", "u2", "bool"), 1),
    "c128": 16,
}

Window: TypeAlias = tuple[tuple[int, int, int], ...]
"""Start, stop and step along each axis."""


@dataclass(frozen=True)
class Form:
    """How many bytes an element takes, and how many elements there are along each axis."""

    element_bytes: int
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * self.element_bytes


@dataclass(frozen=True)
class Header:
    """The sizes of the memories; the only one of a program with a single arena is called ''."""

    memories: dict[str, int]


@dataclass(frozen=True)
class Declaration:
    """A buffer: input, output, const, state, alloc or local. Only an alloc has an address.

    An input that is donated may be overwritten.
    """

    kind: str
    name: str
    form: Form
    memory: str = ""
    address: int | None = None
    donated: bool = False


@dataclass(frozen=True)
class View:
    """Part of a buffer: a window, a layout of start and strides, or simply all of it."""

    name: str
    of: str
    form: Form
    window: Window | None = None
    layout: tuple[int, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class Free:
    """A dealloc."""

    name: str


@dataclass(frozen=True)
class Wait:
    """From here on what was prefetched into these buffers is there."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """An instruction: what it is called, and each operand with what happens to it."""

    word: str
    operands: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Mark:
    """A line that opens a stack, which has scratch operands, or closes what is open."""

    opens: bool
    scratch: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A line that is none of these."""

    text: str


Statement: TypeAlias = Header | Declaration | View | Free | Wait | Run | Mark | Unreadable

_STRING = r'"(?:[^"\\]|\\.)*"'
_NAME = rf"[%@](?:{_STRING}|[\w.$/:\-]*[\w.$/\-])"
_ELEMENT = "|".join(_ELEMENT_BYTES)
_TYPE = rf"(?P<element>{_ELEMENT})\[(?P<shape>[\d, ]*)(?:;[^\]]*)?\]"
_END = r"\s*(?:;.*)?"


def _line(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern + _END, re.ASCII)


_HEADER = _line(rf"program {_NAME}(?P<arenas>(?:,? arena(?: \w+)? \d+)*) {{")
_ARENA_LINE = _line(r"(?P<arenas>arena \w+ \d+)")
_ARENA = re.compile(r"arena(?: (\w+))? (\d+)")
_REGION = _line(
    rf"(?P<kind>input|output|const|state) (?P<name>{_NAME}) : {_TYPE}(?P<donated> donated)?"
    r"(?: filled [^;]*?)?"
)
_ALLOC = _line(
    rf"(?P<name>{_NAME}) = (?P<kind>alloc|local) {_TYPE}"
    r"(?: in (?P<memory>\w+))?(?: at (?P<address>\d+))?"
)
_VIEW = _line(
    rf"(?P<name>{_NAME}) = view (?P<of>{_NAME})"
    r"(?:\[(?P<window>[\d:, ]*)\]| \{start = (?P<start>\d+), strides = \((?P<strides>[^)]*)\)\})?"
    rf" : {_TYPE}"
)
_FREE = _line(rf"dealloc (?P<name>{_NAME})")
_WAIT = _line(rf"wait (?P<names>{_NAME}(?:, {_NAME})*)")
_CLOSE = _line(r"\}")
_OPERAND = rf"(?:none|(?:inout|out|in|scratch) {_NAME})"
_PAIRS = rf'\{{(?:{_STRING}|[^"}}])*\}}'
_PLAN = rf"(?: plan [A-Za-z_][\w\-]*(?: {_PAIRS})? needs {_PAIRS})?"
_OPEN = _line(rf"stack(?P<scratch>(?:,? scratch {_NAME})*){_PLAN} \{{")
_RUN = _line(
    rf"(?P<word>[A-Za-z_][\w\-]*(?:::\w+)?) (?P<operands>{_OPERAND}(?:, {_OPERAND})*)"
    rf"(?: {_PAIRS})?(?: if (?P<predicate>{_NAME}))?{_PLAN}"
)
_ONE_OPERAND = re.compile(rf"(inout|out|in|scratch) ({_NAME})", re.ASCII)
_ONE_NAME = re.compile(_NAME, re.ASCII)


def read_statements(text: str) -> Iterator[tuple[int, Statement]]:
    """Every statement with the number of its line, counted from one."""
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith(";"):
            yield number, _statement(stripped)


def _statement(line: str) -> Statement:
    for pattern, made in _READERS:
        match = pattern.fullmatch(line)
        if match is not None:
            return made(match)
    return Unreadable(line)


def _header(match: re.Match[str]) -> Statement:
    return Header({name: int(size) for name, size in _ARENA.findall(match["arenas"])})


def _declaration(match: re.Match[str]) -> Statement:
    fields = match.groupdict()
    address = fields.get("address")
    return Declaration(
        fields["kind"],
        fields["name"],
        _form(match),
        fields.get("memory") or "",
        None if address is None else int(address),
        fields.get("donated") is not None,
    )


def _view(match: re.Match[str]) -> Statement:
    window = layout = None
    if match["window"] is not None:
        parts = [[int(n) for n in part.split(":")] for part in _items(match["window"])]
        window = tuple((part[0], part[1], part[2] if len(part) > 2 else 1) for part in parts)
    elif match["start"] is not None:
        layout = int(match["start"]), tuple(map(int, _items(match["strides"])))
    return View(match["name"], match["of"], _form(match), window, layout)


def _run(match: re.Match[str]) -> Statement:
    operands = _ONE_OPERAND.findall(match["operands"])
    if match["predicate"] is not None:
        operands.append(("in", match["predicate"]))
    return Run(match["word"], tuple(operands))


def _form(match: re.Match[str]) -> Form:
    return Form(_ELEMENT_BYTES[match["element"]], tuple(map(int, _items(match["shape"]))))


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


_READERS = (
    (_FREE, lambda match: Free(match["name"])),
    (_ALLOC, _declaration),
    (_VIEW, _view),
    (_REGION, _declaration),
    (_OPEN, lambda match: Mark(True, tuple(_ONE_NAME.findall(match["scratch"])))),
    (_CLOSE, lambda match: Mark(opens=False)),
    (_WAIT, lambda match: Wait(tuple(_ONE_NAME.findall(match["names"])))),
    (_RUN, _run),
    (_HEADER, _header),
    (_ARENA_LINE, _header),
)
