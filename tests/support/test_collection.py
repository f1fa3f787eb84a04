"""Putting off the search for garbage."""

from __future__ import annotations

import gc
import weakref

from afterglow.support.collection import without_collecting


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_no_garbage_is_searched_for_until_the_last_of_overlapping_pauses_ends() -> None:
    first, second = without_collecting(), without_collecting()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_garbage_that_was_made_meanwhile_is_found_soon() -> None:
    with without_collecting():
        node = weakref.ref(Node())
    gc.collect(0)
    assert node() is None


def test_what_stays_is_old_and_garbage_in_it_is_found_later() -> None:
    with without_collecting(permanent=True):
        node = weakref.ref(Node())
        kept = [[] for _ in range(10_000)]
    assert gc.get_count()[0] < len(kept)
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert node() is None


def test_a_program_that_searches_for_no_garbage_keeps_to_it() -> None:
    gc.disable()
    try:
        with without_collecting():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_a_program_has_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        with without_collecting(permanent=True):
            pass
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()
