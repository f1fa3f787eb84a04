"""What is generated: whole, and piece by piece."""

from __future__ import annotations

from typing import Any, NamedTuple

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array


class TokenLogprob(NamedTuple):
    """The log-probability of a token, and the likeliest tokens in its place with theirs.

    They are those of the model, before temperature, penalties and masks.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class Piece(str):
    """A part of a text as it is generated, with the tokens that came with it.

    `prompt_index` is the place of the prompt among several, `finish_reason` is None but in the last
    piece, which may be empty. A model without a tokenizer gives empty texts.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    prompt_index: int
    finish_reason: str | None

    def __new__(
        cls,
        text: str,
        tokens: tuple[int, ...] = (),
        logprobs: tuple[TokenLogprob, ...] = (),
        prompt_index: int = 0,
        finish_reason: str | None = None,
    ) -> Piece:
        """A piece with this text."""
        made = super().__new__(cls, text)
        made.tokens, made.logprobs = tokens, logprobs
        made.prompt_index, made.finish_reason = prompt_index, finish_reason
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (str(self), self.tokens, self.logprobs, self.prompt_index, self.finish_reason)


@dataclass(frozen=True)
class Generation:
    """What was generated for one prompt."""

    prompt: tuple[int, ...]
    """The tokens of the prompt."""
    tokens: tuple[int, ...]
    """The generated tokens, without a token that ended the text."""
    finish_reason: str
    """"stop": a stop token or string came; "length": max_new_tokens; "context": it is full."""
    time_to_first_token: float
    """Seconds from the call to the first token."""
    seconds: float
    """Seconds from the call to the last token."""
    logprobs: tuple[TokenLogprob, ...] | None = None
    """One for each token, if asked for."""
    logits: Array | None = None
    """f32[tokens, vocabulary], if asked for."""
    drafted: int = 0
    """Tokens that a draft proposed."""
    accepted: int = 0
    """Those of them that were right."""
    _text: str | None = None

    @property
    def text(self) -> str:
        """The generated text, up to a stop string."""
        if self._text is None:
            raise UsageError(
                "the generator has no tokenizer: it gives tokens, not texts",
                help="give one: Generator(model, tokenizer='tokenizer.json')",
            )
        return self._text

    @property
    def tokens_per_second(self) -> float:
        """The rate at which tokens came after the first one."""
        decoding = self.seconds - self.time_to_first_token
        if len(self.tokens) < 2 or decoding <= 0:
            return 1 / self.seconds if self.seconds > 0 else 0.0
        return (len(self.tokens) - 1) / decoding
