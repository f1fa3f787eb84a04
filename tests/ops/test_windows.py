"""Windows by hand: how many there are, and what padding they need."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from afterglow.graph import Op
from afterglow.ops.convolution import Conv
from afterglow.ops.pooling import AvgPool, LpPool, MaxPool, MaxPoolWithIndices
from afterglow.ops.windows import Windows

RNG = np.random.default_rng(0)


def test_windows_count_only_where_they_fit() -> None:
    windows = Windows((3, 2), (2, 1), (0, 0, 0, 0), (1, 3))
    assert windows.reach == (3, 4)
    assert windows.counts((8, 4)) == (3, 1)
    assert windows.counts((2, 3)) == (0, 0)


def test_ceil_mode_adds_a_window_that_starts_inside() -> None:
    windows = Windows((3,), (2,), (0, 0), (1,), ceil_mode=True)
    assert windows.counts((4,)) == (2,)
    assert windows.needed_ends((4,)) == (1,)


def test_ceil_mode_adds_no_window_that_starts_in_the_padding() -> None:
    windows = Windows((1,), (2,), (0, 0), (1,), ceil_mode=True)
    assert windows.counts((2,)) == (1,)


def test_padding_that_no_window_sees_is_not_made() -> None:
    windows = Windows((2,), (2,), (1, 1), (1,))
    padded = windows.padded(np.ones((1, 4, 1)), fill=0)
    np.testing.assert_array_equal(padded.ravel(), [0, 1, 1, 1, 1, 0])
    assert windows.padded(np.ones((1, 3, 1)), fill=0).shape == (1, 4, 1)


def test_taps_of_neighbouring_windows_are_a_stride_apart() -> None:
    windows = Windows((2,), (3,), (0, 0), (2,))
    assert [np.arange(9)[tap].tolist() for tap in windows.taps(0, 3)] == [[0, 3, 6], [2, 5, 8]]


@given(
    st.integers(1, 9), st.integers(1, 5), st.integers(0, 9), st.integers(1, 4), st.integers(1, 6)
)
def test_a_tap_sees_what_lies_inside(
    kernel: int, stride: int, begin: int, dilation: int, extent: int
) -> None:
    windows = Windows((kernel,), (stride,), (begin, kernel * dilation), (dilation,))
    count = windows.count(0, extent)
    seen = {}
    for tap, where in windows.seeing_taps(0, extent, count):
        places = windows.places(0, tap, where)
        seen.update(zip([(tap, w) for w in where], range(extent)[places], strict=True))
    everywhere = (
        ((tap, window), window * stride - begin + tap * dilation)
        for tap in range(kernel)
        for window in range(count)
    )
    assert seen == {at: place for at, place in everywhere if 0 <= place < extent}


def test_of_a_vast_kernel_only_the_taps_that_see_something_are_looked_at() -> None:
    windows = Windows((2**40,), (2**40,), (2**40 - 1, 2**40), (1,))
    assert windows.seeing_taps(0, 3, 2) == [
        (0, range(1, 2)),
        (1, range(1, 2)),
        (2**40 - 1, range(1)),
    ]


VAST = (2**20, 2**20, 2**20, 2**20)


def padded_by_hand(op: Op, x: np.ndarray, *others: np.ndarray) -> None:
    """What an op gives is the same whether its padding is in memory or not."""
    expected = op.evaluate(x, *others)
    with mock.patch.object(Windows, "pads_dominate", return_value=True):
        got = op.evaluate(x, *others)
    for want, found in zip(np.atleast_1d(expected), np.atleast_1d(got), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_padding_need_not_be_in_memory() -> None:
    x, w = RNG.standard_normal((2, 5, 4, 6)), RNG.standard_normal((4, 3, 2, 3))
    padded_by_hand(Conv((2, 1), (3, 0, 2, 4), (1, 3), 2), x, w, RNG.standard_normal(4))
    shape = ((3, 2), (2, 1), (4, 0, 1, 3), (1, 2))
    for pool in (MaxPool(*shape), AvgPool(*shape), LpPool(*shape)):
        padded_by_hand(pool, x)
    want, where = MaxPoolWithIndices(*shape).evaluate(x)
    with mock.patch.object(Windows, "pads_dominate", return_value=True):
        values, indices = MaxPoolWithIndices(*shape).evaluate(x)
    np.testing.assert_array_equal(values, want)
    np.testing.assert_array_equal(indices, where)


def test_vast_padding_takes_no_memory() -> None:
    x, w = np.ones((1, 2, 2, 1)), np.ones((1, 3, 3, 1))
    vast = (2**20, 2**20)
    assert Conv(vast, VAST, (1, 1)).evaluate(x, w).ravel().tolist() == [0, 0, 0, 4]
    assert MaxPool((3, 3), vast, VAST, (1, 1)).evaluate(x).ravel()[3] == 1
    assert AvgPool((2**21, 2**21), vast, VAST, (1, 1)).evaluate(x).ravel()[0] == 1
