"""Cutting a text into the words within which byte-level BPE joins pieces.

Patterns tell letters, numbers, marks and punctuation of all scripts apart, which Python's own do
not: so every character beyond ASCII is replaced by one of its class first. Lengths stay the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from afterglow.support.errors import UnsupportedError

_SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000").union(
    map(chr, range(0x2000, 0x200B))
)
_LETTER, _NUMBER, _SPACE, _MARK, _PUNCTUATION, _OTHER = "é", "²", "\xa0", "\u0300", "¡", "¢"
"""What stands for the characters of each class beyond ASCII."""
_L, _N = f"A-Za-z{_LETTER}", f"0-9{_NUMBER}"
_S = f"\\t\\n\\v\\f\\r {_SPACE}"
_P = f"!-#%-*,-/:;?@\\[-\\]_{{}}{_PUNCTUATION}"
_ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = f"{_ENDINGS}| ?[{_L}]+| ?[{_N}]+| ?[^{_S}{_L}{_N}]+|[{_S}]+(?![^{_S}])"


def _llama3(digits: str) -> str:
    """Words with one character before them, numbers, punctuation with line ends, line ends."""
    return (
        f"(?i:{_ENDINGS})|[^\\r\\n{_L}{_N}]?[{_L}]+|[{_N}]{digits}|"
        f" ?[^{_S}{_L}{_N}]+[\\r\\n]*|[{_S}]*[\\r\\n]+|[{_S}]+(?![^{_S}])|[{_S}]+"
    )


_PATTERNS: dict[str, tuple[str, ...]] = {
    "default": (f"[{_P}$+<=>^~|]+", _GPT2, f"[{_N}]+", "[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "llama-bpe": (_llama3("{1,3}"),),
    "qwen2": (_llama3(""),),
    "smollm": (f"[{_N}]", _GPT2),
}
"""Patterns by the name that GGUF files have for them; each cuts what the one before has left."""
_SAME = {
    "gpt2": "gpt-2",
    "mpt": "gpt-2",
    "olmo": "gpt-2",
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "falcon3": "llama-bpe",
    "smaug-bpe": "llama-bpe",
    "dbrx": "llama-bpe",
    "deepseek-r1-qwen": "qwen2",
    "stablelm2": "qwen2",
    "starcoder": "smollm",
    "refact": "smollm",
    "command-r": "smollm",
    "codeshell": "smollm",
}
TAKES_WHOLE_WORDS = frozenset(("llama-bpe", "llama3", "llama-v3", "falcon3"))
"""Those whose words are a token at once, if there is one."""


def words(text: str, name: str) -> Sequence[str]:
    """The words of a text, in order, by the pattern of a name."""
    classes = _classes(text)
    spans: Iterable[tuple[int, int]] = [(0, len(text))]
    for pattern in _compiled(name):
        spans = [cut for span in spans for cut in _cuts(pattern, classes, *span)]
    return [text[start:stop] for start, stop in spans]


@cache
def _compiled(name: str) -> tuple[re.Pattern[str], ...]:
    found = _PATTERNS.get(_SAME.get(name, name))
    if found is None:
        known = ", ".join((*_PATTERNS, *_SAME))
        raise UnsupportedError(
            f"the tokenizer cuts words in the way {name!r}, which is not supported",
            help=f"there are {known}; or give a tokenizer.json with tokenizer=",
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


def _classes(text: str) -> str:
    return text if text.isascii() else "".join(c if c < "\x80" else _class(c) for c in text)


@cache
def _class(character: str) -> str:
    if character in _SPACES:
        return _SPACE
    kinds = {"L": _LETTER, "N": _NUMBER, "M": _MARK, "P": _PUNCTUATION}
    return kinds.get(unicodedata.category(character)[0], _OTHER)
