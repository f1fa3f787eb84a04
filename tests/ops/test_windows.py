"""Windows by hand: how many there are, and what padding they need."""

from __future__ import annotations

import numpy as np

from afterglow.ops.windows import Windows


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
