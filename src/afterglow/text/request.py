"""One sequence on its way from a prompt to a finished text."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.text.generation import Generation, Piece, TokenLogprob
from afterglow.text.options import GenerationOptions, allowed_tokens
from afterglow.text.sampling import Sampler, log_softmax
from afterglow.text.stopping import StopStrings
from afterglow.text.tokens import TextStream
from afterglow.types import Array

FIRST_KEPT = 4
"""Tokens at the beginning that stay when the context is shifted: models attend much to these."""


class GenerationRequest:
    """A prompt, its options, and what was generated so far.

    `tokens` are those in the context, of which `filled` are in the caches of `slot`, the sequence
    of the decoder that it has while it runs.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        options: GenerationOptions,
        *,
        vocabulary: int,
        context: int,
        text: TextStream | None = None,
        index: int = 0,
    ) -> None:
        self.prompt = tuple(prompt)
        self.tokens = list(prompt)
        self.options = options
        self.filled = 0
        self.slot: int | None = None
        self.generated: list[int] = []
        self.pieces: deque[Piece] = deque()
        self.finish_reason: str | None = None
        self.error: BaseException | None = None
        self.drafted = self.accepted = 0
        self._vocabulary, self._context, self._index = vocabulary, context, index
        self._sampler = Sampler(options.sampling, vocabulary, prompt)
        self._stream, self._stops = text, StopStrings(options.stop)
        self._text: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._logits: list[Array] = []
        self._started = self._last = perf_counter()
        self._first: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is generated."""
        return self.finish_reason is not None or self.error is not None

    @property
    def pending(self) -> int:
        """The number of tokens in the context that are not in the caches yet."""
        return len(self.tokens) - self.filled

    @property
    def most_drafted(self) -> int:
        """How many tokens a draft may propose so that all of them could be taken."""
        room = self._context - len(self.tokens)
        most = self.options.max_new_tokens
        return room if most is None else min(room, most - len(self.generated) - 1)

    def advance(self, logits: Array, fed: int, draft: Sequence[int]) -> None:
        """Choose tokens from the logits behind the last token and behind each drafted one.

        `fed` tokens of the context went into the caches. A drafted token counts if it is the one
        that is chosen; then the logits behind it decide the next.
        """
        filled, self.drafted = self.filled + fed, self.drafted + len(draft)
        for row, proposed in zip(logits, [*draft, None], strict=True):
            token = self._choose(row)
            if self.is_over or token != proposed:
                break
            filled, self.accepted = filled + 1, self.accepted + 1
        self.filled = filled
        if not self.is_over and len(self.tokens) > self._context:
            self._shift()

    def fail(self, error: BaseException) -> None:
        """End with an error, which whoever waits for the text gets."""
        self.error = error

    def result(self) -> Generation:
        """What was generated."""
        first = self._last if self._first is None else self._first
        return Generation(
            self.prompt,
            tuple(self.generated),
            self.finish_reason or "",
            first - self._started,
            self._last - self._started,
            None if self.options.logprobs is None else tuple(self._logprobs),
            self._all_logits() if self.options.logits else None,
            self.drafted,
            self.accepted,
            None if self._stream is None else "".join(self._text),
        )

    def _all_logits(self) -> Array:
        return np.array(self._logits, np.float32).reshape(-1, self._vocabulary)

    def _choose(self, logits: Array) -> int:
        options = self.options
        mask = options.mask
        allowed = None if mask is None else allowed_tokens(mask, self.generated, self._vocabulary)
        token = self._sampler.choose(logits, len(self.generated), allowed)
        self._last = perf_counter()
        if self._first is None:
            self._first = self._last
        if token in options.stop_tokens:
            self._end("stop", "", (), ())
            return token
        self.tokens.append(token)
        self.generated.append(token)
        if options.logits:
            self._logits.append(logits.copy())
        self._give(token, self._logprob(logits, token))
        return token

    def _logprob(self, logits: Array, token: int) -> tuple[TokenLogprob, ...]:
        if self.options.logprobs is None:
            return ()
        logprobs, count = log_softmax(logits), self.options.logprobs
        best = np.argsort(-logprobs, kind="stable")[:count]
        top = tuple((int(each), float(logprobs[each])) for each in best)
        self._logprobs.append(TokenLogprob(token, float(logprobs[token]), top))
        return (self._logprobs[-1],)

    def _give(self, token: int, logprobs: tuple[TokenLogprob, ...]) -> None:
        """Pass on a token with its text, and end where it is the last one."""
        text = self._stops.push("" if self._stream is None else self._stream.push(token))
        reason = self._reason()
        if reason is not None:
            self._end(reason, text, (token,), logprobs)
        else:
            self._pass(Piece(text, (token,), logprobs, self._index))

    def _reason(self) -> str | None:
        options = self.options
        if self._stops.found:
            return "stop"
        if len(self.generated) == options.max_new_tokens:
            return "length"
        is_full = len(self.tokens) > self._context
        if is_full and options.on_full == "error":
            raise UsageError(
                f"the context is full: the prompt and what was generated have {len(self.tokens)} "
                f"tokens, the model has a context of {self._context}",
                help='compile it for more, generate fewer, or give on_full="shift"',
            )
        return "context" if is_full and options.on_full == "stop" else None

    def _end(
        self, reason: str, text: str, tokens: tuple[int, ...], logprobs: tuple[TokenLogprob, ...]
    ) -> None:
        if not self._stops.found:
            rest = "" if self._stream is None else self._stream.finish()
            text += self._stops.push(rest)
            text += self._stops.finish()
        self._pass(Piece(text, tokens, logprobs, self._index, reason))
        self.finish_reason = reason

    def _pass(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self._text.append(str(piece))

    def _shift(self) -> None:
        """Forget the middle of a full context: what is left is computed again, as a prompt is."""
        kept = min(FIRST_KEPT, self._context // 4)
        self.tokens = [*self.tokens[:kept], *self.tokens[-max(self._context // 2, 1) :]]
        self.filled = min(self.filled, kept)
