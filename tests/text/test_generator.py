"""Generating: the same tokens whatever else happens, and what ends a text."""

from __future__ import annotations

import gc
import threading
import weakref
from itertools import islice

import numpy as np
import pytest

from afterglow.text import Generator
from tests.text.fakes import FakeDecoder, LetterTokenizer, greedy

TOKENIZER = LetterTokenizer()
PROMPT = [0, 5, 3, 9, 1]


def generator(decoder: FakeDecoder | None = None, **options: object) -> Generator:
    return Generator(decoder or FakeDecoder(), tokenizer=TOKENIZER, **options)


def test_greedy_tokens_are_the_likeliest_ones() -> None:
    decoder = FakeDecoder()
    found = generator(decoder).generate(PROMPT, 20)
    assert list(found.tokens) == greedy(decoder, PROMPT, 20)
    assert found.text == TOKENIZER.decode(found.tokens)
    assert found.finish_reason == "length"
    assert found.prompt == tuple(PROMPT)
    assert 0 < found.time_to_first_token <= found.seconds
    assert found.tokens_per_second > 0


def test_a_long_prompt_goes_in_by_chunks() -> None:
    decoder = FakeDecoder(chunk=7)
    prompt = [i * i % 31 for i in range(40)]
    assert list(generator(decoder).generate(prompt, 5).tokens) == greedy(decoder, prompt, 5)
    assert decoder.runs == 6 + 4


def test_a_text_is_tokenized_with_its_beginning() -> None:
    found = generator().generate("dog", 3)
    assert found.prompt == (0, 4, 15, 7)


def test_pieces_make_up_the_text() -> None:
    made = generator()
    pieces = list(made.stream(PROMPT, 12))
    whole = made.generate(PROMPT, 12)
    assert "".join(pieces) == whole.text
    assert tuple(token for piece in pieces for token in piece.tokens) == whole.tokens
    assert [piece.finish_reason for piece in pieces] == [None] * 11 + ["length"]


@pytest.mark.parametrize("sequences", [1, 2, 3, 8])
@pytest.mark.parametrize("chunk", [3, 16])
@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_companions_change_nothing(sequences: int, chunk: int, temperature: float) -> None:
    prompts = [[0, *range(1, n)] for n in (2, 9, 5, 20, 3)]
    alone = [
        generator().generate(p, 5 + p[-1], temperature=temperature, seed=7).tokens for p in prompts
    ]
    decoder = FakeDecoder(sequences=sequences, chunk=chunk, most_wanted=min(chunk, 2))
    together = generator(decoder)
    streams = [together.stream(p, 5 + p[-1], temperature=temperature, seed=7) for p in prompts]
    found: list[list[int]] = [[] for _ in prompts]
    for _ in range(30):
        for place, stream in enumerate(streams):
            found[place] += [t for piece in islice(stream, 1) for t in piece.tokens]
    assert [tuple(tokens) for tokens in found] == alone
    batch = together.generate(prompts, 10, temperature=temperature, seed=7)
    assert [g.tokens[:6] for g in batch] == [tokens[:6] for tokens in alone]


def test_several_sequences_share_runs() -> None:
    prompts = [[0, i, i + 1] for i in range(1, 9)]
    decoder = FakeDecoder(sequences=8, chunk=32)
    generator(decoder).generate(prompts, 10)
    assert decoder.runs == 10


def test_seeds_decide_what_is_drawn() -> None:
    made = generator()
    first = made.generate(PROMPT, 20, temperature=1.0, seed=3).tokens
    assert made.generate(PROMPT, 20, temperature=1.0, seed=3).tokens == first
    assert made.generate(PROMPT, 20, temperature=1.0, seed=4).tokens != first
    several = made.generate([PROMPT, PROMPT], 20, temperature=1.0, seed=[4, 3])
    assert [several[0].tokens != first, several[1].tokens == first] == [True, True]
    unseeded = {made.generate(PROMPT, 20, temperature=1.0).tokens for _ in range(3)}
    assert len(unseeded) == 3


def test_stop_tokens_end_a_text_before_them() -> None:
    whole = generator().generate(PROMPT, 20).tokens
    end = next(i for i, token in enumerate(whole) if token not in whole[:i] and i > 2)
    found = generator().generate(PROMPT, 20, stop_tokens=[whole[end]])
    assert found.tokens == whole[:end]
    assert found.finish_reason == "stop"
    assert found.text == TOKENIZER.decode(found.tokens)


def test_stop_strings_end_a_text_before_them() -> None:
    whole = generator().generate(PROMPT, 20)
    string = whole.text[8:11]
    place = whole.text.find(string)
    found = generator().generate(PROMPT, 20, stop=["no such text", string])
    assert found.text == whole.text[:place]
    assert found.finish_reason == "stop"
    assert "".join(generator().stream(PROMPT, 20, stop=string)) == found.text


def test_a_full_context_ends_a_text() -> None:
    found = generator(FakeDecoder(context=10)).generate(PROMPT, None)
    assert (len(found.tokens), found.finish_reason) == (6, "context")


def test_a_prompt_may_fill_the_context() -> None:
    found = generator(FakeDecoder(context=5)).generate(PROMPT, 9)
    assert (len(found.tokens), found.finish_reason) == (1, "context")


def test_a_shifted_context_goes_on_from_what_is_left() -> None:
    decoder = FakeDecoder(context=16)
    found = generator(decoder).generate(PROMPT, 40, on_full="shift").tokens
    before = [*PROMPT, *found[:12]]
    left = [*before[:4], *before[-8:]]
    assert list(found[12:17]) == greedy(decoder, left, 5)
    assert len(found) == 40


def test_logprobs_and_logits_are_those_of_the_model() -> None:
    found = generator().generate(PROMPT, 4, logprobs=3, logits=True, temperature=2.0, seed=1)
    assert found.logits is not None
    assert found.logprobs is not None
    assert found.logits.shape == (4, 31)
    for row, token, logprob in zip(found.logits, found.tokens, found.logprobs, strict=True):
        expected = row - np.log(np.exp(row.astype(np.float64)).sum())
        assert logprob.token == token
        assert logprob.logprob == pytest.approx(expected[token], abs=1e-5)
        assert [t for t, _ in logprob.top] == np.argsort(-expected)[:3].tolist()
    pieces = list(generator().stream(PROMPT, 4, logprobs=3, temperature=2.0, seed=1))
    assert tuple(each for piece in pieces for each in piece.logprobs) == found.logprobs


def test_masks_constrain_the_output() -> None:
    allowed = [[4], [15], [7], [3]]

    def words(tokens: list[int]) -> list[int]:
        return allowed[len(tokens)]

    assert generator().generate(PROMPT, 4, mask=words).text == "dogc"
    vowels = np.isin(np.arange(31), [1, 5, 9, 15, 21])
    found = generator().generate(PROMPT, 30, mask=lambda _: vowels, temperature=3.0, seed=0)
    assert set(found.tokens) <= {1, 5, 9, 15, 21}
    assert generator().generate(PROMPT, 3, mask=lambda _: None).tokens == (
        generator().generate(PROMPT, 3).tokens
    )


def test_a_closed_stream_leaves_the_generator_right() -> None:
    made = generator()
    whole = made.generate(PROMPT, 20).tokens
    stream = made.stream([0, 7, 7, 2], 30)
    assert len(list(islice(stream, 4))) == 4
    stream.close()
    assert made.generate(PROMPT, 20).tokens == whole


def test_an_interrupted_stream_leaves_the_generator_right() -> None:
    class Interrupted(FakeDecoder):
        left = -1

        def step(self, *arrays):
            self.left -= 1
            logits = super().step(*arrays)
            if self.left == 0:
                raise KeyboardInterrupt
            return logits

    decoder = Interrupted(sequences=2)
    made = generator(decoder)
    whole = made.generate(PROMPT, 20).tokens
    other = made.stream(PROMPT, 20)
    begun = [token for piece in islice(other, 3) for token in piece.tokens]
    decoder.left = 4
    with pytest.raises(KeyboardInterrupt):
        made.generate([0, 1, 2], 20)
    assert made.generate(PROMPT, 20).tokens == whole
    assert (*begun, *(token for piece in other for token in piece.tokens)) == whole


def test_an_error_of_one_request_is_its_own() -> None:
    made = generator(FakeDecoder(sequences=2))

    def fails(tokens: list[int]) -> list[int]:
        if len(tokens) == 3:
            raise RuntimeError("no idea")
        return [1]

    failing, other = made.stream(PROMPT, 9, mask=fails), made.stream(PROMPT, 9)
    next(failing)
    assert len(list(other)) == 9
    with pytest.raises(RuntimeError, match="no idea"):
        list(failing)
    assert len(made.generate(PROMPT, 4).tokens) == 4


def test_threads_may_share_a_generator() -> None:
    made = generator(FakeDecoder(sequences=3))
    prompts = [[0, n, 2 * n] for n in range(1, 7)]
    wanted = [generator().generate(p, 12).tokens for p in prompts]
    found: dict[int, tuple[int, ...]] = {}

    def work(place: int) -> None:
        found[place] = made.generate(prompts[place], 12).tokens

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[i] for i in range(len(prompts))] == wanted


def test_what_a_sequence_has_seen_is_not_computed_again() -> None:
    decoder = FakeDecoder(chunk=64)
    made = generator(decoder)
    first = made.generate([0, *range(1, 20)], 4)
    decoder.rows = 0
    conversation = [*first.prompt, *first.tokens, 3, 4]
    found = made.generate(conversation, 4)
    assert list(found.tokens) == greedy(decoder, conversation, 4)
    assert decoder.rows == 3 + 3


def test_prompts_of_a_batch_share_their_beginning() -> None:
    system = [0, *(i * 7 % 31 for i in range(40))]
    decoder = FakeDecoder(sequences=4, chunk=64)
    found = generator(decoder).generate([[*system, n] for n in range(4)], 3)
    assert decoder.rows == 42 + 3 + 4 * 2
    for n, each in enumerate(found):
        assert list(each.tokens) == greedy(decoder, [*system, n], 3)


def test_many_generations_leave_nothing_behind() -> None:
    made = generator(FakeDecoder(sequences=2), draft="ngram")

    def objects() -> int:
        gc.collect()
        return len(gc.get_objects())

    def some(count: int) -> None:
        for n in range(count):
            made.generate([[0, n % 31], [0, 3, n % 31]], 8, stop="xyz", temperature=1.0, seed=n)
            stream = made.stream(PROMPT, 20)
            next(stream)
            stream.close()

    some(5)
    before = objects()
    some(40)
    assert objects() <= before + 20


def test_a_generator_that_is_dropped_is_freed() -> None:
    made = generator()
    made.generate(PROMPT, 2)
    gone = weakref.ref(made.decoder)
    del made
    gc.collect()
    assert gone() is None
