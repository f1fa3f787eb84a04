"""How soon Python's lock is handed over."""

from __future__ import annotations

import sys

from afterglow.support.hand_over import SOON, quick_hand_over


def test_the_lock_is_handed_over_soon_until_the_last_of_overlapping_spans_ends() -> None:
    before = sys.getswitchinterval()
    first, second = quick_hand_over(), quick_hand_over()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert sys.getswitchinterval() <= 2 * SOON
    second.__exit__(None, None, None)
    assert sys.getswitchinterval() == before
