"""The patterns by which byte-level BPE cuts texts into words, as tables in C."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import groupby

from afterglow.runtime.word_patterns import CLASSES, class_of

_SYMBOLS = (*map(chr, range(0x80)), *CLASSES)
"""What texts are made of for a pattern: ASCII, and the classes of all other characters."""
_STEP = re.compile(r"(\(\?!)?(\[(?:\\.|[^\]\\])+\]|\\.|[^|])([?+*]|\{\d,\d\})?\)?|\|", re.DOTALL)
"""One step of a pattern: a character or set and how often it may come, or the next alternative."""
_TIMES = {"": (1, 1), "?": (0, 1), "*": (0, None), "+": (1, None)}


def pattern_tables(patterns: Sequence[str]) -> dict[str, object]:
    """What the gaps for tables are filled with."""
    sets: dict[str, int] = {}
    starts: list[int] = []
    steps: list[str] = []
    for pattern in patterns:
        starts.append(len(steps))
        steps.extend([*_steps(pattern, sets), "{DONE, 0, 0, 0}"])
    return {
        "sets": _lines("{" + ", ".join(map(_hex, _words_of(each))) + "}" for each in sets),
        "steps": _lines(steps),
        "pattern_starts": ", ".join(map(str, starts)),
        "pattern_count": len(starts),
        "classes": _lines(map(_hex, _classes())),
        "other_class": len(_SYMBOLS) - 1,
    }


def _steps(pattern: str, sets: dict[str, int]) -> Iterator[str]:
    """The steps of a pattern; new sets are numbered."""
    for match in _STEP.finditer(pattern):
        refuses, characters, times = match.groups()
        if characters is None:
            yield "{END, 0, 0, 0}"
            continue
        number = sets.setdefault(characters, len(sets))
        least, most = _times(times or "")
        many = "NONE" if most is None else most
        yield f"{{{'NOT_BEFORE' if refuses else 'TAKE'}, {number}, {least}, {many}}}"
    yield "{END, 0, 0, 0}"


def _times(text: str) -> tuple[int, int | None]:
    if text in _TIMES:
        return _TIMES[text]
    least, most = text[1:-1].split(",")
    return int(least), int(most)


def _words_of(characters: str) -> list[int]:
    """A set of symbols as bits."""
    pattern = re.compile(characters)
    bits = sum(1 << n for n, symbol in enumerate(_SYMBOLS) if pattern.fullmatch(symbol))
    return [bits >> shift & 0xFFFFFFFF for shift in range(0, len(_SYMBOLS), 32)]


@cache
def _classes() -> list[int]:
    """Where characters of another class begin, times 8, with the number of the class."""
    characters = map(chr, range(0x80, sys.maxunicode + 1))
    runs = groupby(characters, class_of)
    return [ord(next(run)) << 3 | CLASSES.index(stands_for) for stands_for, run in runs]


def _hex(number: int) -> str:
    return f"{number:#x}u"


def _lines(items: Iterator[str] | Sequence[str]) -> str:
    """Items in lines of C."""
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) > 90:
            lines.append(line)
            line = ""
        line += f" {item},"
    return "\n".join(f"   {line}" for line in (*lines, line))
