"""Caches that are written in place, and attention over them, step by step."""

from __future__ import annotations

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Module
from afterglow.ops.attention import Attention
from afterglow.ops.cached_attention import CachedAttention, WriteRows
from afterglow.support.errors import IndexRangeError
from afterglow.types import TensorType
from afterglow.types.dtype import f32, i32
from afterglow.types.extent import Dim, ranged

HEADS, SHARED, WIDTH, CONTEXT = 4, 2, 8, 12
RNG = np.random.default_rng(5)
ROWS = [RNG.standard_normal((10, n, WIDTH), np.float32) for n in (HEADS, SHARED, SHARED)]


def decoder(sequences: int = 1, **attributes: float) -> Module:
    """Attention with caches as state, for one token or several of any sequences."""
    module = Module()
    main = ag.Function("main", module)
    tokens = ranged(Dim("tokens", 1, 10))
    q, k, v = (
        main.input(name, TensorType(f32, (tokens, heads, WIDTH)))
        for name, heads in (("q", HEADS), ("k", SHARED), ("v", SHARED))
    )
    at, of = (main.input(n, TensorType(i32, (tokens,))) for n in ("positions", "sequences"))
    b = Builder(main)
    cache = TensorType(f32, (sequences, SHARED, CONTEXT, WIDTH))
    written = []
    for name, rows in (("keys", k), ("values", v)):
        state = module.state(name, cache)
        written.append(b.emit(WriteRows(), state, rows, at, of))
        main.update(state, written[-1])
    main.output("y", b.emit(CachedAttention(WIDTH**-0.5, **attributes), q, *written, at, of))
    return module


def step(model: ag.CompiledModel, first: int, last: int, sequence: int = 0) -> np.ndarray:
    """What a model returns for some tokens of a sequence."""
    rows = [part[first:last] for part in ROWS]
    positions = np.arange(first, last, dtype=np.int32)
    return model(*rows, positions, np.full(last - first, sequence, np.int32))


def causal() -> np.ndarray:
    """Attention of all tokens at once, by an op that knows no cache."""
    q, k, v = (part.swapaxes(0, 1)[None] for part in ROWS)
    return Attention(WIDTH**-0.5, causal=True).evaluate(q, k, v)[0].swapaxes(0, 1)


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_prompt_then_single_tokens_see_what_one_causal_attention_sees(backend: str) -> None:
    model = ag.compile(decoder(), backend=backend)
    parts = [step(model, *ends) for ends in ((0, 4), (4, 5), (5, 6), (6, 10))]
    np.testing.assert_allclose(np.concatenate(parts), causal(), rtol=1e-5, atol=1e-6)


def test_tokens_of_sequences_in_any_mixture_see_their_own_rows() -> None:
    model = ag.compile(decoder(sequences=3))
    step(model, 0, 3, sequence=2)
    step(model, 0, 5, sequence=0)
    order = [5, 3, 6, 4]
    positions, sequences = np.int32(order), np.int32([0, 2, 0, 2])
    mixed = model(*(part[order] for part in ROWS), positions, sequences)
    np.testing.assert_allclose(mixed, causal()[order], rtol=1e-5, atol=1e-6)


def test_smaller_positions_rewind_a_sequence() -> None:
    model = ag.compile(decoder())
    wanted = step(model, 0, 10)
    np.testing.assert_allclose(step(model, 6, 8), wanted[6:8], rtol=1e-4, atol=1e-6)


def test_caches_are_written_where_they_lie() -> None:
    text = ag.compile(decoder()).ir()
    assert "copy" not in text
    assert "%write_rows = view @keys : f32[1, 2, 12, 8]" in text


@pytest.mark.parametrize(("positions", "sequences"), [(CONTEXT, 0), (-1, 0), (0, 1), (0, -1)])
def test_places_outside_of_the_caches_are_an_error_that_overwrites_nothing(
    positions: int, sequences: int
) -> None:
    model = ag.compile(decoder())
    step(model, 0, 9)
    with pytest.raises(IndexRangeError, match=r"positions|sequences"):
        model(*(part[:1] for part in ROWS), np.int32([positions]), np.int32([sequences]))
    np.testing.assert_allclose(step(model, 9, 10), causal()[9:], rtol=1e-5, atol=1e-6)
