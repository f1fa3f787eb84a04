"""Drafts: proposals of the next tokens, which the model verifies several at a time.

A model reads all its weights for one token or for a few. So where the next tokens can be guessed,
one run decides several. What is generated is the same as without: a guess counts only where it is
the token that is chosen anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.text.decoder import Decoder
from afterglow.types import Array


class Ask(NamedTuple):
    """A sequence whose next tokens are to be proposed, at most so many."""

    slot: int
    tokens: list[int]
    most: int


class Drafter(Protocol):
    """Proposes tokens."""

    def propose(self, asks: Sequence[Ask]) -> list[list[int]]:
        """The likely next tokens of each sequence; fewer than asked for, or none, may be given."""


class NgramDrafter:
    """Proposes what came after the last tokens when they were there before."""

    LONGEST, SHORTEST = 4, 2

    def __init__(self) -> None:
        self._indices: dict[int, _NgramIndex] = {}

    def propose(self, asks: Sequence[Ask]) -> list[list[int]]:
        """The tokens behind the latest earlier occurrence of the longest n-gram."""
        return [self._index(ask).after(ask.most) for ask in asks]

    def _index(self, ask: Ask) -> _NgramIndex:
        index = self._indices.get(ask.slot)
        if index is None or index.tokens is not ask.tokens:  # another sequence has the slot
            index = self._indices[ask.slot] = _NgramIndex(ask.tokens)
        index.extend()
        return index


class _NgramIndex:
    """Where the n-grams of a growing list of tokens end, the last occurrence of each."""

    def __init__(self, tokens: list[int]) -> None:
        self.tokens = tokens
        self._ends: dict[tuple[int, ...], int] = {}
        self._known = 0

    def extend(self) -> None:
        """Add the n-grams of new tokens, except those at the end, which have no successor yet."""
        tokens = self.tokens
        for end in range(self._known + 1, len(tokens)):
            for size in range(NgramDrafter.SHORTEST, min(NgramDrafter.LONGEST, end) + 1):
                self._ends[tuple(tokens[end - size : end])] = end
        self._known = max(self._known, len(tokens) - 1)

    def after(self, most: int) -> list[int]:
        """What came after the n-gram that the tokens end with."""
        tokens = self.tokens
        for size in range(NgramDrafter.LONGEST, NgramDrafter.SHORTEST - 1, -1):
            end = self._ends.get(tuple(tokens[-size:]))
            if end is not None and len(tokens) >= size:
                return tokens[end : end + max(most, 0)]
        return []


class ModelDrafter:
    """Proposes the likeliest tokens of a smaller model."""

    def __init__(self, decoder: Decoder, vocabulary: int, sequences: int) -> None:
        if decoder.vocabulary != vocabulary:
            raise UsageError(
                f"the draft model has a vocabulary of {decoder.vocabulary} tokens, the model one "
                f"of {vocabulary}",
                help="give a draft model with the same tokenizer",
            )
        if decoder.sequences < sequences:
            raise UsageError(
                f"the draft model has caches for {decoder.sequences} sequences, the model for "
                f"{sequences}",
                help=f"compile it with dims={{'sequences': {sequences}}}",
            )
        self._decoder = decoder
        self._held: dict[int, list[int]] = {}
        """The tokens in the caches, by slot."""

    def propose(self, asks: Sequence[Ask]) -> list[list[int]]:
        """As many tokens as there is room for in its context, greedily."""
        context = self._decoder.context
        asks = [a._replace(most=min(a.most, context - len(a.tokens))) for a in asks]
        drafts: list[list[int]] = [[] for _ in asks]
        going = [i for i, ask in enumerate(asks) if ask.most > 0]
        while going:
            chosen = self._next(
                [asks[i]._replace(tokens=asks[i].tokens + drafts[i]) for i in going]
            )
            for i, token in zip(going, chosen, strict=True):
                drafts[i].append(token)
            going = [i for i in going if len(drafts[i]) < asks[i].most]
        return drafts

    def _next(self, asks: Sequence[Ask]) -> list[int]:
        """The likeliest next token of each sequence."""
        chosen: dict[int, int] = {}
        for ask in asks:
            held = self._held.setdefault(ask.slot, [])
            del held[min(common_length(held, ask.tokens), len(ask.tokens) - 1) :]
        while len(chosen) < len(asks):
            chosen.update(self._feed([ask for ask in asks if ask.slot not in chosen]))
        return [chosen[ask.slot] for ask in asks]

    def _feed(self, asks: Sequence[Ask]) -> dict[int, int]:
        """Run once; the next tokens of the sequences that are then complete, by slot."""
        room = self._decoder.chunk
        rows: list[tuple[int, int, int]] = []
        ends: dict[int, int] = {}
        for ask in asks[: self._decoder.most_wanted]:
            held = self._held[ask.slot]
            new = ask.tokens[len(held) :][: room - len(rows)]
            rows += [(token, len(held) + i, ask.slot) for i, token in enumerate(new)]
            held += new
            if len(held) == len(ask.tokens):
                ends[ask.slot] = len(rows) - 1
        tokens, positions, sequences = rows_of(rows)
        wanted = np.array([*ends.values()] or [len(rows) - 1], np.int32)
        logits = self._decoder.step(tokens, positions, sequences, wanted)
        return dict(zip(ends, logits.argmax(1).tolist(), strict=False))


def rows_of(rows: Sequence[tuple[int, int, int]]) -> tuple[Array, Array, Array]:
    """Tokens, positions and sequences as arrays of their own, as a decoder takes them."""
    columns = np.array(rows, np.int32).T
    tokens, positions, sequences = np.ascontiguousarray(columns)
    return tokens, positions, sequences


def common_length(one: list[int], other: list[int]) -> int:
    """How many tokens two lists begin with alike."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
