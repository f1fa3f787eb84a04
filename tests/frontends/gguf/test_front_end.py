"""GGUF models from end to end: compiled, run, saved and refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import afterglow as ag
from afterglow.frontends.gguf.reader import read_file
from afterglow.ops.rounded_rows import round_rows
from afterglow.runtime.text_metadata import TEXT, TextMetadata
from afterglow.support.errors import AfterglowError
from afterglow.types import Array
from tests.frontends.gguf.files import gguf_bytes, q4_0, q8_0, random_q6_k
from tests.frontends.language.models import (
    VOCABULARY,
    llama_logits,
    llama_metadata,
    llama_weights,
    quantized,
)

TOKENS = [1, 5, 9, 270, 271, 280, 7, 290]


def tiny(store: Callable[[Array], Any] = lambda array: array, **metadata: Any) -> bytes:
    return gguf_bytes(llama_metadata(**metadata), quantized(llama_weights(), store))


def weights_in(data: bytes) -> Mapping[str, Array]:
    return {name: w.floats() for name, w in read_file(memoryview(data)).tensors.items()}


def feed(tokens: list[int], start: int = 0, sequence: int = 0) -> tuple[Array, Array, Array]:
    """Tokens of a sequence, from a position on."""
    count = len(tokens)
    return (
        np.int32(tokens),
        np.arange(start, start + count, dtype=np.int32),
        np.full(count, sequence, np.int32),
    )


def rows(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


@pytest.mark.parametrize("dtype", ["f4", "f2"])
def test_logits_of_floats_are_those_of_the_definition(dtype: str) -> None:
    data = tiny(lambda array: array.astype(dtype))
    model = ag.compile(data, backend="interpreter")
    expected = llama_logits(weights_in(data), TOKENS)
    got = model(*feed(TOKENS), np.arange(8, dtype=np.int32))
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("store", [q8_0, q4_0])
def test_products_with_blocks_multiply_rounded_rows(store: Callable[[Array], Any]) -> None:
    data = tiny(store)
    model = ag.compile(data, backend="interpreter")
    expected = llama_logits(weights_in(data), TOKENS, round_rows)
    got = model(*feed(TOKENS), np.arange(8, dtype=np.int32))
    np.testing.assert_allclose(got, expected, atol=5e-3)


def test_blocks_of_256_are_multiplied_by_rows_rounded_in_such_blocks() -> None:
    sizes = {"embedding_length": 256, "feed_forward_length": 512, "rope.dimension_count": 64}
    metadata = llama_metadata(**{f"llama.{name}": size for name, size in sizes.items()})
    data = gguf_bytes(metadata, quantized(llama_weights(0, 256, 512), random_q6_k))
    model = ag.compile(data, backend="interpreter")
    rounded = llama_logits(weights_in(data), TOKENS[:3], partial(round_rows, block=256))
    got = model(*feed(TOKENS[:3]), rows(0, 1, 2))
    np.testing.assert_allclose(got, rounded, atol=0.01 * np.abs(rounded).max())
    finely = llama_logits(weights_in(data), TOKENS[:3], round_rows)
    assert np.abs(got - rounded).max() < np.abs(got - finely).max() / 4


def test_chunks_steps_and_several_sequences_give_the_same_logits() -> None:
    data = tiny()
    model = ag.compile(data, dims={"sequences": 2, "context": 32})
    expected = llama_logits(weights_in(data), TOKENS)
    np.testing.assert_allclose(model(*feed(TOKENS[:5]), rows(4))[0], expected[4], atol=1e-4)
    np.testing.assert_allclose(model(*feed(TOKENS[:3], 0, 1), rows(2))[0], expected[2], atol=1e-4)
    parts = zip(feed(TOKENS[5:6], 5), feed(TOKENS[3:6], 3, 1), strict=True)
    both = model(*map(np.concatenate, parts), rows(0, 3, 1))
    np.testing.assert_allclose(both, expected[[5, 5, 3]], atol=1e-4)


def test_places_outside_of_the_caches_are_refused() -> None:
    model = ag.compile(tiny(), backend="interpreter", dims={"context": 16})
    with pytest.raises(AfterglowError, match="16"):
        model(*feed([1], 16), rows(0))
    with pytest.raises(AfterglowError, match="1"):
        model(*feed([1], 0, 1), rows(0))


def test_the_text_metadata_travel_with_the_model(tmp_path: Path) -> None:
    model = ag.compile(tiny(), backend="interpreter", cache=tmp_path)
    again = ag.compile(tiny(), backend="interpreter", cache=tmp_path)
    model.save(tmp_path / "tiny.agc")
    for each in (model, again, ag.load(tmp_path / "tiny.agc")):
        text = TextMetadata.from_bytes(each.attachments[TEXT])
        assert (text.name, text.bos, text.eos, text.add_bos) == ("tiny", 1, (2,), True)
        assert text.tokenizer["kind"] == "sentencepiece"
        assert len(text.tokenizer["tokens"]) == text.vocabulary == VOCABULARY


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"general.architecture": "mamba"}, "the architecture 'mamba' is not supported"),
        ({"llama.expert_count": 8}, "a mixture of experts (llama) is not supported"),
        ({"llama.attention.head_count_kv": 3}, "4 heads of queries cannot share 3 heads of keys"),
        ({"llama.embedding_length": 72}, "tensor 'token_embd.weight' is [292, 64], it must be"),
        ({"llama.block_count": 1}, "a model of the architecture 'llama' has no place for the"),
        ({"llama.block_count": 2**31 - 1}, "the model has 2,147,483,647 layers, more than 1024"),
        ({"llama.block_count": 3}, "the model has no tensor 'blk.2.attn_norm.weight'"),
        ({"llama.context_length": "long"}, "'llama.context_length' of the metadata must be an"),
        ({"llama.rope.scaling.type": "new"}, "the scaling 'new' of the rotary embedding is not"),
        (
            {"llama.rope.scaling.factor": 4.0, "llama.rope.dimension_count": 2**31 - 2},
            "2147483646 elements of each head are to be turned: an even number of them must be",
        ),
        ({"tokenizer.ggml.bos_token_id": 999}, "'tokenizer.ggml.bos_token_id' is 999, of 292"),
    ],
)
def test_models_that_cannot_be_are_refused_in_words(change: dict[str, Any], what: str) -> None:
    with pytest.raises(AfterglowError) as caught:
        ag.compile(tiny(**change), backend="interpreter")
    assert caught.value.what.startswith(what)


def test_dimensions_of_the_caches_must_be_numbers() -> None:
    with pytest.raises(AfterglowError, match="dimension 'context' must be one number"):
        ag.compile(tiny(), backend="interpreter", dims={"context": 0})


def test_a_context_beyond_the_trained_one_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="was trained for 64 positions, the context is 80"):
        ag.compile(tiny(), backend="interpreter", dims={"context": 80})
