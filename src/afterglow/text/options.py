"""Options of one generation: a frozen value, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, fields
from operator import index
from typing import Any, TypeAlias, TypedDict

import numpy as np

from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.text.sampling import Sampling, is_count
from afterglow.types import Array

MaskCallback: TypeAlias = Callable[[list[int]], Any]
"""Given the tokens generated so far, returns which tokens may come next.

That is a boolean array of the vocabulary, a list of tokens, or None if all may.
"""
ON_FULL = ("stop", "shift", "error")
"""What may happen when the context is full."""


class GenerateArguments(TypedDict, total=False):
    """The options that `Generator.generate` and `Generator.stream` take by name."""

    temperature: float
    """0, the default, for the likeliest token each time; otherwise how freely it is chosen."""
    top_k: int
    """Choose among the likeliest so many tokens; 0 for all."""
    top_p: float
    """Choose among the fewest tokens with this probability together."""
    min_p: float
    """Choose among tokens at least so many times as likely as the likeliest."""
    repetition_penalty: float
    """Above 1, makes tokens less likely that were there before."""
    seed: int | Sequence[int] | None
    """Decides what is chosen at random; for several prompts one seed, or a list of them."""
    stop: str | Sequence[str]
    """A text, or several, before which the generated text ends."""
    stop_tokens: Sequence[int] | None
    """Tokens before which it ends; None for those of the model."""
    logprobs: int | None
    """Give log-probabilities of the chosen tokens, and of so many of the likeliest."""
    logits: bool
    """Give the logits of each token."""
    mask: MaskCallback | None
    """A function of the generated tokens that returns which may come next."""
    on_full: str
    """When the context is full: "stop", "error", or "shift" to forget its first half."""


@dataclass(frozen=True)
class GenerationOptions:
    """How one sequence is generated: see `GenerateArguments`."""

    max_new_tokens: int | None = 256
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    stop_tokens: frozenset[int] = frozenset()
    logprobs: int | None = None
    logits: bool = False
    mask: MaskCallback | None = None
    on_full: str = "stop"

    @staticmethod
    def of(
        given: Mapping[str, Any], max_new_tokens: Any, vocabulary: int, model_stops: Collection[int]
    ) -> GenerationOptions:
        """The options that arguments by name say, checked; the model says where texts end."""
        _check_names(given)
        chosen = {name: value for name, value in given.items() if name in _OF_SAMPLING}
        stops = given.get("stop_tokens")
        options = GenerationOptions(
            max_new_tokens,
            Sampling(**chosen),
            _stop_strings(given.get("stop", ())),
            frozenset(
                model_stops if stops is None else checked_tokens("stop_tokens", stops, vocabulary)
            ),
            given.get("logprobs"),
            bool(given.get("logits", False)),
            given.get("mask"),
            given.get("on_full", "stop"),
        )
        options.check(vocabulary)
        return options

    def check(self, vocabulary: int) -> None:
        """Refuse values that mean nothing."""
        most, logprobs, mask = self.max_new_tokens, self.logprobs, self.mask
        if most is not None and not (is_count(most) and most > 0):
            raise UsageError(
                f"max_new_tokens must be a whole number, 1 or more, got {most!r}",
                help="None goes on until the model ends the text or the context is full",
            )
        if logprobs is not None and not (is_count(logprobs) and logprobs <= vocabulary):
            raise UsageError(
                f"logprobs must be a number of tokens from 0 to {vocabulary}, got {logprobs!r}",
                help="0 gives the log-probability of each token that was chosen",
            )
        if mask is not None and not callable(mask):
            raise UsageError(f"mask must be a function, got a {type(mask).__name__}")
        if self.on_full not in ON_FULL:
            listed = ", ".join(map(repr, ON_FULL))
            raise UsageError(f"on_full must be one of {listed}, got {self.on_full!r}")


_OF_SAMPLING = tuple(each.name for each in fields(Sampling))


def _check_names(given: Mapping[str, Any]) -> None:
    known = GenerateArguments.__annotations__
    wrong = next((name for name in given if name not in known), None)
    if wrong is not None:
        raise UsageError(f"there is no option {wrong!r}", help=f"there are {', '.join(known)}")


def _stop_strings(given: Any) -> tuple[str, ...]:
    strings = (given,) if isinstance(given, str) else given
    is_list = isinstance(strings, Iterable)
    if not is_list or not all(isinstance(each, str) and each for each in strings):
        raise UsageError(
            f"stop must be a text or a list of texts, none of them empty, got {given!r}",
            help="tokens that end a text are given as stop_tokens",
        )
    return tuple(strings)


def checked_tokens(argument: str, given: Any, vocabulary: int) -> list[int]:
    """Tokens of a vocabulary as a list; raise for anything else."""
    if isinstance(given, np.ndarray):
        given = given.tolist() if given.ndim == 1 else [given]
    try:
        tokens = [index(token) for token in given]
    except TypeError:
        raise UsageError(f"{argument} must be a list of tokens, got {given!r}") from None
    wrong = next((token for token in tokens if not 0 <= token < vocabulary), None)
    if wrong is not None:
        raise UsageError(
            f"{argument} contains token {wrong}, which is not in the vocabulary",
            help=f"tokens of this model are from 0 to {vocabulary - 1}",
        )
    return tokens


def allowed_tokens(mask: MaskCallback, generated: Sequence[int], vocabulary: int) -> Array | None:
    """Which tokens a mask callback allows to come next, as booleans; None for all."""
    given = mask(list(generated))
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype == bool:
        if array.shape != (vocabulary,):
            raise UsageError(
                f"the mask callback returned booleans of shape {array.shape}: "
                f"the vocabulary has {vocabulary} tokens"
            )
        allowed = array
    else:
        allowed = np.zeros(vocabulary, bool)
        allowed[checked_tokens("the result of the mask callback", given, vocabulary)] = True
    if not allowed.any():
        raise UsageError(
            f"the mask callback forbids every token after {len(generated)} generated tokens",
            help="allow a stop token where the output may end",
        )
    return allowed
