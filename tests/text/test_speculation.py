"""Drafts: the same tokens with fewer runs of the model."""

from __future__ import annotations

import pytest

from afterglow.text import Generator
from afterglow.text.speculation import Ask, NgramDrafter, common_length
from tests.text.fakes import FakeDecoder

PROMPTS = [[0, 5, 3, 9, 1], [0, 4, 4, 4, 4, 4], [0, 1, 2, 3, 1, 2, 3, 1, 2]]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("sequences", [1, 3])
@pytest.mark.parametrize("draft", ["ngram", "same", "other"])
def test_drafts_change_no_token(draft: str, sequences: int, temperature: float) -> None:
    options = {"temperature": temperature, "seed": 5}
    wanted = [Generator(FakeDecoder()).generate(p, 40, **options).tokens for p in PROMPTS]
    drafter: object = draft
    if draft != "ngram":
        drafter = FakeDecoder(sequences=sequences, seed=int(draft == "other"), chunk=4)
    made = Generator(FakeDecoder(sequences=sequences), draft=drafter, draft_tokens=4)
    assert [g.tokens for g in made.generate(PROMPTS, 40, **options)] == wanted
    again = made.generate(PROMPTS[::-1], 30, **options)
    assert [g.tokens for g in again] == [tokens[:30] for tokens in wanted[::-1]]


def test_a_good_draft_saves_runs() -> None:
    decoder = FakeDecoder()
    found = Generator(decoder, draft=FakeDecoder(), draft_tokens=4).generate(PROMPTS[0], 41)
    assert (found.drafted, found.accepted) == (32, 32)
    assert decoder.runs == 1 + 8


def test_drafts_respect_masks_stops_and_the_context() -> None:
    for options in (
        {"mask": lambda tokens: [len(tokens) % 7, 9, 3]},
        {"stop_tokens": [9, 17]},
        {"repetition_penalty": 1.7},
        {"on_full": "shift", "max_new_tokens": 60},
    ):
        plain = Generator(FakeDecoder(context=24)).generate(
            PROMPTS[1], **{"max_new_tokens": 30} | options
        )
        drafted = Generator(FakeDecoder(context=24), draft=FakeDecoder(context=20)).generate(
            PROMPTS[1], **{"max_new_tokens": 30} | options
        )
        assert (drafted.tokens, drafted.finish_reason) == (plain.tokens, plain.finish_reason)


def test_ngrams_propose_what_came_before() -> None:
    drafter = NgramDrafter()
    tokens = [1, 2, 3, 4, 5, 1, 2, 3]
    assert drafter.propose([Ask(0, tokens, 2)]) == [[4, 5]]
    tokens += [9]
    assert drafter.propose([Ask(0, tokens, 2)]) == [[]]
    tokens += [2, 3]
    assert drafter.propose([Ask(0, tokens, 9)]) == [[9, 2, 3]]
    assert drafter.propose([Ask(0, [7, 8, 7, 8], 1)]) == [[7]]


def test_common_beginnings() -> None:
    assert common_length([], [1]) == 0
    assert common_length([1, 2, 3], [1, 2, 4, 5]) == 2
    assert common_length([1, 2, 3], [1, 2, 3, 4]) == 3
    assert common_length([2], [1]) == 0
