"""Wrong uses of a generator: each one clear error, after which it goes on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from afterglow.support.errors import AfterglowError
from afterglow.text import Generator
from tests.text.fakes import FakeDecoder, LetterTokenizer

PROMPT = [0, 5, 3]
STOPS = "stop must be a text or a list of texts, none of them empty, got"
MOST = "max_new_tokens must be a whole number, 1 or more, got"
FULL = "on_full must be one of 'stop', 'shift', 'error', got"
ABSENT = "which is not in the vocabulary"
WITHOUT = "the model has no tokenizer: it takes tokens, not texts"


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ([1] * 65, {}, "the prompt has 65 tokens, the model a context of 64"),
        ([], {}, "the prompt is empty"),
        ([[]], {}, "the prompt is empty"),
        (np.zeros(0, int), {}, "the prompt is empty"),
        ([1, 31], {}, "the prompt contains token 31, which is not in the vocabulary"),
        ([1, -1], {}, "the prompt contains token -1, which is not in the vocabulary"),
        ([1, 2.5], {}, "the prompt must be a list of tokens, got [1, 2.5]"),
        (None, {}, "the prompt must be a list of tokens, got None"),
        (PROMPT, {"temperature": -1}, "temperature must be a number, 0 or more, got -1"),
        (PROMPT, {"temperature": "hot"}, "temperature must be a number, 0 or more, got 'hot'"),
        (PROMPT, {"temperature": float("nan")}, "temperature must be a number, 0 or more, got nan"),
        (PROMPT, {"top_p": 0}, "top_p must be above 0 and at most 1, got 0"),
        (PROMPT, {"top_p": 1.5}, "top_p must be above 0 and at most 1, got 1.5"),
        (PROMPT, {"top_k": -1}, "top_k must be a whole number, 0 or more, got -1"),
        (PROMPT, {"top_k": 2.0}, "top_k must be a whole number, 0 or more, got 2.0"),
        (PROMPT, {"min_p": 2}, "min_p must be from 0 to 1, got 2"),
        (PROMPT, {"repetition_penalty": 0}, "repetition_penalty must be a number above 0, got 0"),
        (PROMPT, {"seed": -3}, "seed must be a whole number from 0 to 2**64 - 1, got -3"),
        (PROMPT, {"seed": 2**64}, f"seed must be a whole number from 0 to 2**64 - 1, got {2**64}"),
        ([PROMPT] * 2, {"seed": [1]}, "there are 1 seeds for 2 prompts"),
        (PROMPT, {"stop": 7}, f"{STOPS} 7"),
        (
            PROMPT,
            {"stop": ""},
            f"{STOPS} ''",
        ),
        (
            PROMPT,
            {"stop_tokens": [99]},
            "stop_tokens contains token 99, which is not in the vocabulary",
        ),
        (PROMPT, {"stop_tokens": "x"}, "stop_tokens must be a list of tokens, got 'x'"),
        (PROMPT, {"max_new_tokens": 0}, f"{MOST} 0"),
        (
            PROMPT,
            {"max_new_tokens": 1.5},
            f"{MOST} 1.5",
        ),
        (PROMPT, {"logprobs": 32}, "logprobs must be a number of tokens from 0 to 31, got 32"),
        (PROMPT, {"mask": [1]}, "mask must be a function, got a list"),
        (
            PROMPT,
            {"mask": lambda _: np.ones(7, bool)},
            "the mask callback returned booleans of shape (7,): the vocabulary has 31 tokens",
        ),
        (
            PROMPT,
            {"mask": lambda tokens: [] if len(tokens) == 2 else [1]},
            "the mask callback forbids every token after 2 generated tokens",
        ),
        (
            PROMPT,
            {"mask": lambda _: [77]},
            "the result of the mask callback contains token 77, which is not in the vocabulary",
        ),
        (
            PROMPT,
            {"on_full": "panic"},
            f"{FULL} 'panic'",
        ),
        (
            PROMPT,
            {"on_full": "error", "max_new_tokens": None},
            "the context is full: the prompt and what was generated have 65 tokens, the model "
            "has a context of 64",
        ),
        (PROMPT, {"temprature": 1}, "there is no option 'temprature'"),
    ],
)
def test_wrong_arguments(prompt: Any, options: dict[str, Any], message: str) -> None:
    made = Generator(FakeDecoder(), tokenizer=LetterTokenizer())
    with pytest.raises(AfterglowError) as caught:
        made.generate(prompt, **options)
    assert caught.value.what == message
    if options.get("mask") is None:
        with pytest.raises(AfterglowError):
            list(made.stream(prompt, **options))
    assert len(made.generate(PROMPT, 3).tokens) == 3


def test_arguments_of_a_stream_are_checked_before_it_begins() -> None:
    with pytest.raises(AfterglowError, match="top_p must be"):
        Generator(FakeDecoder()).stream(PROMPT, top_p=7)


@pytest.mark.parametrize("options", [{"prompt": "text"}, {"prompt": PROMPT, "stop": "x"}])
def test_texts_without_a_tokenizer(options: dict[str, Any]) -> None:
    with pytest.raises(AfterglowError) as caught:
        Generator(FakeDecoder()).generate(**options)
    assert caught.value.what == WITHOUT


def test_the_text_of_what_was_generated_without_a_tokenizer() -> None:
    found = Generator(FakeDecoder()).generate(PROMPT, 2)
    with pytest.raises(AfterglowError, match="the generator has no tokenizer"):
        found.text  # noqa: B018


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequences": 0}, "sequences must be a whole number, 1 or more, got 0"),
        ({"context": "long"}, "context must be a whole number, 1 or more, got 'long'"),
        ({"sequences": 3}, "sequences=3, but the model was compiled for 1 sequence"),
        ({"context": 65}, "context=65, but the model was compiled for 64 tokens"),
        (
            {"draft_tokens": 0, "draft": "ngram"},
            "draft_tokens must be a whole number, 1 or more, got 0",
        ),
        (
            {"draft": FakeDecoder(vocabulary=30)},
            "the draft model has a vocabulary of 30 tokens, the model one of 31",
        ),
        (
            {"tokenizer": 3},
            "a tokenizer must be the path of a tokenizer.json or an object with "
            "encode, decode, piece and stream, got a int",
        ),
    ],
)
def test_generators_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AfterglowError) as caught:
        Generator(FakeDecoder(), **options)
    assert caught.value.what == message
