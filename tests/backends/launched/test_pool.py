"""Things are made when needed, a few at most, and handed to one user at a time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import count
from threading import Barrier, Event

import pytest

from afterglow.backends.launched.pool import Pool
from afterglow.support.errors import DeviceError


def test_one_user_after_another_gets_the_same_thing():
    pool = Pool(count().__next__, 3)
    for _ in range(3):
        with pool.acquired() as thing:
            assert thing == 0


def test_users_at_once_get_different_things_and_others_wait():
    pool, together = Pool(count().__next__, 2), Barrier(2, timeout=10)

    def use(_):
        with pool.acquired() as thing:
            together.wait()  # would hang if one were alone
            return thing

    with ThreadPoolExecutor(6) as threads:
        assert sorted(threads.map(use, range(6))) == [0, 0, 0, 1, 1, 1]


def make_one_only():
    yield "first"
    while True:
        yield DeviceError("no memory")


def test_where_no_other_can_be_made_those_that_are_there_must_do():
    things, has_first, asked = make_one_only(), Event(), Event()

    def make():
        thing = next(things)
        if isinstance(thing, DeviceError):
            asked.set()
            raise thing
        return thing

    pool = Pool(make, 2)

    def hold():
        with pool.acquired() as thing:
            has_first.set()
            assert asked.wait(10)
            return thing

    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(hold)
        assert has_first.wait(10)
        with pool.acquired() as thing:
            assert thing == held.result(10) == "first"


def test_an_error_while_the_first_is_made_is_the_users_and_others_can_try():
    things = iter([DeviceError("no memory"), "first"])

    def make():
        thing = next(things)
        if isinstance(thing, DeviceError):
            raise thing
        return thing

    pool = Pool(make, 1)
    with pytest.raises(DeviceError), pool.acquired():
        pass
    with pool.acquired() as thing:
        assert thing == "first"
