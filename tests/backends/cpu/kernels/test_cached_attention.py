"""Attention over caches against its definition: several blocks, runs, windows and storage types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import afterglow as ag
from afterglow.graph import Builder, Function
from afterglow.ops.cached_attention import CachedAttention
from afterglow.types import Array, DType, TensorType
from afterglow.types.dtype import f16, f32, i8, i32
from afterglow.types.extent import Dim, ranged

CONTEXT, SEQUENCES, MOST = 300, 3, 70


def model(
    op: CachedAttention, heads: int, shared: int, width: int, cache: DType, threads: int = 1
) -> ag.CompiledModel:
    """The op alone, for any number of tokens."""
    f, tokens = Function("main"), ranged(Dim("tokens", 1, MOST))
    caches = TensorType(cache, (SEQUENCES, shared, CONTEXT, width))
    types = {
        "query": TensorType(f32, (tokens, heads, width)),
        "keys": caches,
        "values": caches,
        "positions": TensorType(i32, (tokens,)),
        "sequences": TensorType(i32, (tokens,)),
    }
    if cache is i8:
        scales = TensorType(f32, (SEQUENCES, shared, CONTEXT, 1))
        types |= {"key_scales": scales, "value_scales": scales}
    f.output("y", Builder(f).emit(op, *(f.input(name, type) for name, type in types.items())))
    return ag.compile(f.module, threads=threads)


def operands(
    places: Sequence[tuple[int, int]], heads: int, shared: int, width: int, cache: DType
) -> list[Array]:
    """Random queries and caches, for tokens at (sequence, position)."""
    rng = np.random.default_rng(7)
    shape = (SEQUENCES, shared, CONTEXT, width)
    rows = [rng.standard_normal(shape, np.float32) for _ in range(2)]
    if cache is i8:
        rows = [np.rint(x * 40) for x in rows]
    query = rng.standard_normal((len(places), heads, width), np.float32)
    numbers = np.int32(places).reshape(-1, 2)
    given = [
        query,
        *(x.astype(cache.numpy) for x in rows),
        numbers[:, 1].copy(),
        numbers[:, 0].copy(),
    ]
    scales = [rng.uniform(0.01, 0.03, (*shape[:3], 1)).astype(np.float32) for _ in range(2)]
    return given + scales if cache is i8 else given


def run(sequence: int, start: int, count: int) -> list[tuple[int, int]]:
    """Tokens of a sequence at neighbouring positions."""
    return [(sequence, start + at) for at in range(count)]


TOKENS = {
    "one": run(1, 271, 1),
    "first": run(0, 0, 1),
    "four": [(0, 3), (1, 299), (2, 128), (1, 127)],
    "prompt": run(2, 0, MOST),
    "later": run(0, 211, 40),
    "mixture": [*run(0, 5, 3), *run(1, 250, 33), (2, 299), (2, 0), *run(1, 0, 20)],
}

FORMS = {
    "heads": (CachedAttention(0.125), 3, 3, 64, f32),
    "shared": (CachedAttention(0.125), 8, 2, 64, f32),
    "odd": (CachedAttention(0.2), 21, 3, 20, f32),
    "window": (CachedAttention(0.2, window=150), 4, 2, 32, f32),
    "capped": (CachedAttention(0.2, softcap=1.5), 4, 2, 32, f32),
    "f16": (CachedAttention(0.2), 4, 2, 32, f16),
    "i8": (CachedAttention(0.2, window=40), 4, 1, 32, i8),
}


@pytest.mark.parametrize("form", FORMS)
def test_tokens_get_what_the_definition_says(form: str) -> None:
    op, *shape = FORMS[form]
    compiled = model(op, *shape)
    for places in TOKENS.values():
        given = operands(places, *shape)
        np.testing.assert_allclose(compiled(*given), op.evaluate(*given), rtol=2e-4, atol=2e-5)


def test_positions_that_no_token_sees_may_hold_anything() -> None:
    op, *shape = FORMS["shared"]
    compiled = model(op, *shape)
    for places in (TOKENS["one"], run(1, 3, 40)):
        given = operands(places, *shape)
        wanted = op.evaluate(*given)
        for cache in given[1:3]:
            cache[:, :, places[-1][1] + 1 :] = np.nan
            cache[0] = np.nan
        np.testing.assert_allclose(compiled(*given), wanted, rtol=2e-4, atol=2e-5)


def test_the_number_of_threads_changes_no_bit() -> None:
    op, *shape = FORMS["shared"]
    single, several = (model(op, *shape, threads=n) for n in (1, 2))
    for places in TOKENS.values():
        given = operands(places, *shape)
        np.testing.assert_array_equal(several(*given), single(*given))


def test_a_token_alone_and_among_others_gets_the_same() -> None:
    op, *shape = FORMS["heads"]
    compiled = model(op, *shape)
    places = [(0, 3), (1, 299), (2, 128), (1, 127), (0, 80), (2, 90)]
    query, keys, values, positions, sequences = operands(places, *shape)
    together = compiled(query, keys, values, positions, sequences)
    for token in range(len(places)):
        one = slice(token, token + 1)
        alone = compiled(query[one], keys, values, positions[one], sequences[one])
        np.testing.assert_array_equal(alone, together[one])
