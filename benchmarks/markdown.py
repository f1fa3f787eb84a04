"""Tables in Markdown, and figures in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTHING = "–"  # noqa: RUF001  a dash is what tables have


def table(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns hold words, the others numbers."""
    rule = "|" + "---|" * words + "---:|" * (len(head) - words)
    return "\n".join([_line(head), rule, *map(_line, lines)])


def scaled(value: float | None, unit: float, form: str) -> str:
    """A figure in a unit; a dash where there is none."""
    return NOTHING if value is None else form.format(value / unit)


def milliseconds(seconds: float | None) -> str:
    """Three digits of a time."""
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"


def plural(count: int, word: str) -> str:
    """How many there are of what."""
    return f"{count} {word}{'s' if count != 1 else ''}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
