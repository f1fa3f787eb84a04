"""Docstrings and tables as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence

_PAGE = re.compile(r"docs/(?P<page>[\w-]+\.md)")
_SECTION = re.compile(r"^(?P<name>Args|Returns|Raises|Yields):$")
_ITEM = re.compile(r"^    (?P<name>\*{0,2}\w+): (?P<text>.*)$")


def docstring(thing: object) -> str:
    """The docstring as Markdown: arguments as a list, names of documents as links."""
    lines = [_docstring_line(line) for line in (inspect.getdoc(thing) or "").splitlines()]
    return linked("\n".join(lines))


def _docstring_line(line: str) -> str:
    if section := _SECTION.match(line):
        return f"**{section['name']}**\n"
    if item := _ITEM.match(line):
        return f"- `{item['name']}`: {item['text']}"
    return line.lstrip() if line.startswith("     ") else line


def summary(thing: object) -> str:
    """The first paragraph of a docstring, in one line that can be a cell of a table."""
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    return cell(linked(" ".join(first.split())))


def linked(text: str) -> str:
    """The text with names of documents as links to them."""
    return _PAGE.sub(r"[\g<page>](\g<page>)", text)


def cell(text: str) -> str:
    """The text as a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(row)} |".replace("  |", " |") for row in lines]
