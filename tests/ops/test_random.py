"""Random numbers: those of the published generator, and evenly spread."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.ops.random import RandomUniform, philox
from afterglow.types import Array
from afterglow.types import dtype as d

WORD = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((WORD,) * 4, (WORD,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_the_generator_gives_the_words_that_its_authors_published(
    counter: tuple[int, ...], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    assert tuple(map(int, philox(counter, key))) == words


def drawn(op: RandomUniform, run: int = 0) -> Array:
    return op.evaluate(np.array(run))


@pytest.mark.parametrize("dtype", [d.f32, d.f64], ids=str)
def test_blocks_may_be_evaluated_a_few_at_a_time(
    dtype: d.DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = drawn(RandomUniform((7, 5), dtype), run=3)
    monkeypatch.setattr("afterglow.ops.random.MOST_BLOCKS", 4)
    assert drawn(RandomUniform((7, 5), dtype), run=3).tobytes() == whole.tobytes()


@pytest.mark.parametrize("dtype", [d.f32, d.f64], ids=str)
def test_numbers_are_spread_evenly(dtype: d.DType) -> None:
    x = drawn(RandomUniform((100_000,), dtype))
    assert x.min() >= 0
    assert x.max() < 1
    counts, _ = np.histogram(x, 20, (0, 1))
    assert np.abs(counts - 5000).max() < 350
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.01


def test_seeds_streams_and_runs_give_other_numbers() -> None:
    ops = [RandomUniform((50,), seed=seed, stream=stream) for seed in (0, 1) for stream in (0, 1)]
    rows = np.array([drawn(op, run) for op in ops for run in (0, 1, -1)])
    assert len(np.unique(rows)) > 0.99 * rows.size


def test_a_shorter_row_is_the_beginning_of_a_longer_one() -> None:
    np.testing.assert_array_equal(drawn(RandomUniform((5,))), drawn(RandomUniform((9,)))[:5])
