"""Continuous batching: every run of the model serves all sequences that are under way.

A request waits for a free sequence of the decoder, and takes over what the caches already have of
its prompt. Sequences that are decoding come first in every run; prompts fill what room is left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import field
from threading import RLock

import numpy as np

from afterglow.support.lazy_dataclass import dataclass
from afterglow.text.decoder import Decoder
from afterglow.text.request import GenerationRequest
from afterglow.text.speculation import Ask, Drafter, common_length, rows_of
from afterglow.types import Array

WORTH_WAITING = 32
"""Tokens of a prompt for which a request waits while another one computes the same."""


@dataclass(frozen=True)
class Prefix:
    """Tokens that prompts may begin with, and their caches."""

    tokens: tuple[int, ...]
    caches: Mapping[str, Array] = field(repr=False)


@dataclass
class _Slot:
    """A sequence of the decoder: the tokens in its caches, and who uses it."""

    held: list[int] = field(default_factory=list)
    request: GenerationRequest | None = None

    def filled(self) -> list[int]:
        """The tokens in its caches."""
        if self.request is not None:
            self.held = self.request.tokens[: self.request.filled]
        return self.held

    def begins_with(self, tokens: Sequence[int]) -> bool:
        """Whether these are the first tokens in its caches."""
        return self.filled()[: len(tokens)] == list(tokens)


@dataclass(frozen=True)
class _Feed:
    """What a request contributes to a run: tokens of its context, and drafted ones behind them."""

    request: GenerationRequest
    tokens: Sequence[int]
    draft: Sequence[int]

    @property
    def rows_wanted(self) -> int:
        """The number of rows of logits: none until the prompt is complete."""
        complete = len(self.tokens) == self.request.pending
        return 1 + len(self.draft) if complete else 0


class Scheduler:
    """Runs requests on a decoder. Several threads may submit requests and drive it."""

    def __init__(
        self,
        decoder: Decoder,
        sequences: int,
        drafter: Drafter | None = None,
        most_drafted: int = 0,
    ) -> None:
        self.decoder = decoder
        self.prefixes: dict[tuple[int, ...], Prefix] = {}
        self._drafter, self._most_drafted = drafter, most_drafted
        self._slots = [_Slot() for _ in range(sequences)]
        self._waiting: deque[GenerationRequest] = deque()
        self._running: list[GenerationRequest] = []
        """Those with a slot; the one that was served longest ago comes first."""
        self.lock = RLock()

    def submit(self, request: GenerationRequest) -> None:
        """Let a request wait for its turn."""
        with self.lock:
            self._waiting.append(request)

    def cancel(self, request: GenerationRequest) -> None:
        """Forget a request, and let others have its sequence."""
        with self.lock:
            if request in self._waiting:
                self._waiting.remove(request)
            if request in self._running:
                self._running.remove(request)
            if request.slot is not None:
                slot = self._slots[request.slot]
                slot.filled()
                slot.request = request.slot = None

    def advance(self, requests: Sequence[GenerationRequest]) -> None:
        """Run the model once for all that is under way, unless one of these has news already."""
        with self.lock:
            if any(request.is_over or request.pieces for request in requests):
                return
            self._admit()
            self._run(self._feeds())

    def prefix(self, tokens: Sequence[int]) -> Prefix:
        """The caches of tokens that a sequence has just been through."""
        with self.lock:
            found = next(i for i, s in enumerate(self._slots) if s.begins_with(tokens))
            return Prefix(tuple(tokens), self.decoder.read(found, len(tokens)))

    def _admit(self) -> None:
        """Give free sequences to requests that wait."""
        while self._waiting and len(self._running) < len(self._slots):
            request = self._waiting[0]
            known = self._place(request)
            if known is None:
                return
            self._waiting.popleft()
            request.slot, request.filled = known
            self._slots[request.slot].request = request
            self._running.append(request)

    def _place(self, request: GenerationRequest) -> tuple[int, int] | None:
        """A sequence for a request, and how many of its tokens are in the caches there.

        None if it is better to wait for another request that is computing the same tokens.
        """
        prompt, most = request.tokens, len(request.tokens) - 1
        shared = [common_length(slot.filled(), prompt) for slot in self._slots]
        free = [i for i, slot in enumerate(self._slots) if slot.request is None]
        target = max(free, key=lambda i: (shared[i], -len(self._slots[i].held)))
        best = max(range(len(shared)), key=lambda i: (shared[i], i == target))
        stored = max(
            self.prefixes.values(),
            key=lambda prefix: common_length([*prefix.tokens], prompt),
            default=None,
        )
        in_store = 0 if stored is None else common_length([*stored.tokens], prompt)
        reached = max(shared[best], in_store)
        if any(common_length(r.tokens, prompt) > reached + WORTH_WAITING for r in self._running):
            return None
        if stored is not None and in_store > shared[best]:
            self.decoder.write(target, stored.caches)
        elif best != target:
            self.decoder.copy(best, target, shared[best])
        return target, min(reached, most)

    def _feeds(self) -> list[_Feed]:
        """What a run is for: sequences that decode, with drafts, then what fits of prompts."""
        rows, wanted = self.decoder.chunk, self.decoder.most_wanted
        order = sorted(self._running, key=lambda request: request.pending > 1)
        drafts = self._drafts([r for r in order if r.pending == 1][:wanted])
        feeds = []
        for request in order:
            if not rows or not wanted:
                break
            draft = drafts.get(id(request), [])
            tokens = request.tokens[request.filled : request.filled + rows - len(draft)]
            feeds.append(_Feed(request, tokens, draft))
            rows -= len(tokens) + len(draft)
            wanted -= feeds[-1].rows_wanted
        return feeds

    def _drafts(self, decoding: Sequence[GenerationRequest]) -> dict[int, list[int]]:
        """Proposals for sequences, by the identity of their requests."""
        if self._drafter is None or not decoding:
            return {}
        room = min(self.decoder.chunk, self.decoder.most_wanted) // len(decoding) - 1
        most = min(self._most_drafted, room)
        asks = [Ask(r.slot or 0, r.tokens, min(most, r.most_drafted)) for r in decoding]
        return {
            id(request): draft
            for request, draft in zip(decoding, self._drafter.propose(asks), strict=True)
        }

    def _run(self, feeds: Sequence[_Feed]) -> None:
        rows: list[tuple[int, int, int]] = []
        wanted: list[int] = []
        for feed in feeds:
            slot, start = feed.request.slot or 0, feed.request.filled
            fed = [*feed.tokens, *feed.draft]
            rows += [(token, start + i, slot) for i, token in enumerate(fed)]
            wanted += range(len(rows) - feed.rows_wanted, len(rows))
        logits = self.decoder.step(*rows_of(rows), np.array(wanted or [len(rows) - 1], np.int32))
        first = 0
        for feed in feeds:
            count = feed.rows_wanted
            self._advance(feed, logits[first : first + count])
            first += count

    def _advance(self, feed: _Feed, logits: Array) -> None:
        request = feed.request
        if not len(logits):
            request.filled += len(feed.tokens)
            return
        try:
            request.advance(logits, len(feed.tokens), feed.draft)
        except Exception as error:  # of a mask callback: it concerns this request alone
            request.fail(error)
        if request.is_over:
            self.cancel(request)
        else:
            self._running.remove(request)
            self._running.append(request)
