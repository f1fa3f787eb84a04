"""What a user gave by its path or as bytes: mapped once, and looked at by each front end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path

from afterglow.support.errors import AfterglowError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.regular_file import map_file

_HEAD_BYTES = 4096
_MOST_NAMES = 10_000
"""Entries of a folder that are looked at."""


@dataclass(frozen=True, eq=False)
class Content:
    """The bytes of a file, or the names in a folder; nothing is read before someone looks."""

    data: memoryview
    path: Path | None = None
    """None if the bytes were given."""
    names: frozenset[str] = frozenset()
    """What is in it, if it is a folder."""
    is_folder: bool = False

    @classmethod
    def of(cls, source: str | Path | bytes) -> Content:
        """What is there; a `UsageError` if it cannot be read."""
        if isinstance(source, bytes):
            return cls(memoryview(source))
        path = Path(source)
        try:
            if path.is_dir():
                return cls(memoryview(b""), path, _names_in(path), is_folder=True)
            return cls(map_file(path), path)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            what = f"cannot read the model: {reason.lower()}"
            raise UsageError(what, where=f"in {path}") from None

    @cached_property
    def head(self) -> bytes:
        """The first few thousand bytes, or all if there are less."""
        return bytes(self.data[:_HEAD_BYTES])

    @cached_property
    def tail(self) -> bytes:
        """The last few thousand bytes, where archives list what is in them."""
        return bytes(self.data[-16 * _HEAD_BYTES :])

    def inside(self, name: str) -> Content:
        """A file of this folder."""
        assert self.path is not None
        return Content.of(self.path / name)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Let errors about what is in here name the file."""
        try:
            yield
        except AfterglowError as error:
            if self.path is not None:
                error.where = f"{error.where} of {self.path}" if error.where else f"in {self.path}"
            raise


def _names_in(folder: Path) -> frozenset[str]:
    with os.scandir(folder) as entries:
        return frozenset(entry.name for entry in islice(entries, _MOST_NAMES))
