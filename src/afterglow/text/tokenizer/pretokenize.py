"""Cutting a text into the words within which byte-level BPE joins pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from afterglow.runtime.word_patterns import WORD_PATTERNS, class_of
from afterglow.support.errors import UnsupportedError


def words(text: str, name: str) -> Sequence[str]:
    """The words of a text, in order, by the pattern of a name."""
    classes = text if text.isascii() else "".join(map(class_of, text))
    spans: Iterable[tuple[int, int]] = [(0, len(text))]
    for pattern in _compiled(name):
        spans = [cut for span in spans for cut in _cuts(pattern, classes, *span)]
    return [text[start:stop] for start, stop in spans]


@cache
def _compiled(name: str) -> tuple[re.Pattern[str], ...]:
    found = WORD_PATTERNS.get(name)
    if found is None:
        raise UnsupportedError(
            f"the tokenizer cuts words in the way {name!r}, which is not supported",
            help=f"there are {', '.join(WORD_PATTERNS)}; or give a tokenizer.json with tokenizer=",
        )
    return tuple(map(re.compile, found))


def _cuts(pattern: re.Pattern[str], text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """What a pattern matches between two places, and what lies between matches."""
    part = text[start:stop]
    done = 0
    for match in pattern.finditer(part):
        if match.start() > done:
            yield start + done, start + match.start()
        if match.end() > match.start():
            yield start + match.start(), start + match.end()
        done = match.end()
    if done < len(part):
        yield start + done, stop
