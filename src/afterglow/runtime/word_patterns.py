"""How texts are cut into the words within which byte-level BPE joins pieces, as patterns.

Patterns tell letters, numbers, marks and punctuation of all scripts apart, which Python's own do
not: so they are written for texts in which every character beyond ASCII is replaced by one of its
class. They are alternatives of characters and sets in a row, each with one of `? + * {m,n}` behind
it, and `(?!...)` of one set: what tables for C code are made of.
"""

from __future__ import annotations

import unicodedata

_SPACES = frozenset("\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000").union(
    map(chr, range(0x2000, 0x200B))
)
CLASSES = _LETTER, _NUMBER, _SPACE, _MARK, _PUNCTUATION, _OTHER = "é²\xa0\u0300¡¢"
"""What stands for the characters of each class beyond ASCII; the last for those of none."""
_L, _N = f"A-Za-z{_LETTER}", f"0-9{_NUMBER}"
_S = f"\\t\\n\\v\\f\\r {_SPACE}"
_P = f"!-#%-*,-/:;?@\\[-\\]_{{}}{_PUNCTUATION}"
_ENDINGS = "'s|'t|'re|'ve|'m|'ll|'d"
_ENDINGS_IN_ANY_CASE = "'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD]"
_GPT2 = f"{_ENDINGS}| ?[{_L}]+| ?[{_N}]+| ?[^{_S}{_L}{_N}]+|[{_S}]+(?![^{_S}])"


def _llama3(digits: str) -> str:
    """Words with one character before them, numbers, punctuation with line ends, line ends."""
    return (
        f"{_ENDINGS_IN_ANY_CASE}|[^\\r\\n{_L}{_N}]?[{_L}]+|[{_N}]{digits}|"
        f" ?[^{_S}{_L}{_N}]+[\\r\\n]*|[{_S}]*[\\r\\n]+|[{_S}]+(?![^{_S}])|[{_S}]+"
    )


_PATTERNS: dict[str, tuple[str, ...]] = {
    "default": (f"[{_P}$+<=>^~|]+", _GPT2, f"[{_N}]+", "[0-9][0-9][0-9]"),
    "gpt-2": (_GPT2,),
    "llama-bpe": (_llama3("{1,3}"),),
    "qwen2": (_llama3(""),),
    "smollm": (f"[{_N}]", _GPT2),
}
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
WORD_PATTERNS = _PATTERNS | {name: _PATTERNS[same] for name, same in _SAME.items()}
"""Patterns by the name that GGUF files have for them; each cuts what the one before has left."""
TAKES_WHOLE_WORDS = frozenset(("llama-bpe", "llama3", "llama-v3", "falcon3"))
"""Those whose words are a token at once, if there is one."""
_KINDS = {"L": _LETTER, "N": _NUMBER, "M": _MARK, "P": _PUNCTUATION}
"""What stands for general categories of characters."""


def class_of(character: str) -> str:
    """What stands in patterns for a character."""
    if character < "\x80":
        return character
    if character in _SPACES:
        return _SPACE
    return _KINDS.get(unicodedata.category(character)[0], _OTHER)
