"""The pieces and pairs of byte-level BPE as bytes, by which C code finds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from afterglow.support.lazy_dataclass import dataclass

NONE = 0xFFFFFFFF
"""Stands for no token."""


@dataclass(frozen=True)
class Pairs:
    """Texts are numbered: first those of tokens, then others that pieces are spelled as."""

    others: list[bytes] = field(default_factory=list)
    """Texts besides those of the tokens."""
    other_tokens: list[int] = field(default_factory=list)
    """Their tokens, or NONE."""
    found: list[int] = field(default_factory=list)
    """The texts that are tokens, in the order of their bytes."""
    pairs: list[tuple[int, int, int]] = field(default_factory=list)
    """Text of both parts, size of the left one and rank of each pair, in the order of texts."""
    letters: list[int] = field(default_factory=list)
    """The token of each byte, or NONE."""


def pairs_of(pieces: Sequence[str], texts: Sequence[bytes], merges: Iterable[str]) -> Pairs:
    """What finds pieces and pairs; those that no bytes spell are left out."""
    tokens: dict[bytes, int] = {}
    for number, piece in enumerate(pieces):
        tokens.setdefault(_spelled_by(piece), number)
    tokens.pop(b"", None)
    ranks = _ranks(merges)
    joined = {left + right for left, right in ranks}
    own = {text for text, number in tokens.items() if texts[number] == text}
    others = sorted((tokens.keys() | joined) - own)
    place = {text: tokens[text] for text in own}
    place |= {text: len(texts) + n for n, text in enumerate(others)}
    ordered = sorted(ranks, key=lambda pair: (pair[0] + pair[1], len(pair[0])))
    return Pairs(
        others,
        [tokens.get(text, NONE) for text in others],
        [place[text] for text in sorted(tokens)],
        [(place[pair[0] + pair[1]], len(pair[0]), ranks[pair]) for pair in ordered],
        [tokens.get(bytes((byte,)), NONE) for byte in range(256)],
    )


def _spelled_by(piece: str) -> bytes:
    """The bytes that a piece spells; none if it has other characters than those for bytes."""
    spelled = [SPELLED.get(character) for character in piece]
    return bytes(byte for byte in spelled if byte is not None) if None not in spelled else b""


def _ranks(merges: Iterable[str]) -> dict[tuple[bytes, bytes], int]:
    """The place of each pair in the list."""
    ranks = {}
    for rank, line in enumerate(merges):
        left, _, right = line.partition(" ")
        pair = _spelled_by(left), _spelled_by(right)
        if all(pair):
            ranks[pair] = rank
    return ranks


def _spellings() -> dict[str, int]:
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return {chr(byte if byte in seen else next(others)): byte for byte in range(256)}


SPELLED = _spellings()
"""The byte that each character of a piece stands for."""
