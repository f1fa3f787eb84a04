"""How soon a thread that computes in Python lets another one have Python's lock."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from afterglow.support.shared_setting import SharedSetting

SOON = 1e-4
"""Seconds after which a thread hands the lock over, if another one waits for it."""


def _hurry() -> Callable[[], object]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(SOON, before))
    return partial(sys.setswitchinterval, before)


_HURRIES = SharedSetting(_hurry)


def quick_hand_over() -> AbstractContextManager[None]:
    """Let threads that need Python's lock but for a moment have it soon: usually it takes 5 ms."""
    return _HURRIES.changed()
