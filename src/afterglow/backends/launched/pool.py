"""A few things that are handed to one user at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Generic, TypeVar

from afterglow.support.errors import DeviceError

Thing = TypeVar("Thing")


class Pool(Generic[Thing]):
    """Things that are made when they are needed, up to a number; then users wait for one.

    Where there is no memory for a further one, those that are there must do.
    """

    def __init__(self, make: Callable[[], Thing], most: int) -> None:
        self._make = make
        self._most = most
        self._made = 0
        self._free: list[Thing] = []
        self._waiting = 0
        self._changed = Condition()

    @contextmanager
    def acquired(self) -> Iterator[Thing]:
        """One of them, for as long as it is used."""
        thing = self._take()
        try:
            yield thing
        finally:
            self.give_back(thing)

    def take_free(self) -> Thing | None:
        """One that is free now, to be given back; None if there is none."""
        try:
            return self._free.pop()
        except IndexError:
            return None

    def give_back(self, thing: Thing) -> None:
        """Let the next user have one that was taken."""
        self._free.append(thing)
        if self._waiting:  # who waits said so before it looked whether one is free
            with self._changed:
                self._changed.notify()

    def _take(self) -> Thing:
        with self._changed:
            self._waiting += 1
            try:
                while (free := self.take_free()) is None and self._made >= self._most:
                    self._changed.wait()
            finally:
                self._waiting -= 1
            if free is not None:
                return free
            self._made += 1
        try:
            return self._make()
        except BaseException as error:
            with self._changed:
                self._made -= 1
                if not self._made or not isinstance(error, DeviceError):
                    self._changed.notify()
                    raise
                self._most = self._made
        return self._take()
