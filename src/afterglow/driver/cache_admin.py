"""Looking at the cache on disk and making it smaller, whoever else uses it meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from afterglow.support.container import read_metadata
from afterglow.support.disk_cache import CACHE_PARTS
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class CacheEntry:
    """A file in the cache."""

    path: Path
    part: str
    """What it is, by its subfolder: compiled models, kernels, and so on."""
    bytes: int
    used: float
    """When it was last used, in seconds since 1970."""
    model: str = ""
    """The name of the file that a compiled model was made from."""

    @property
    def age(self) -> float:
        """Seconds since it was last used."""
        return max(0.0, time.time() - self.used)


def cache_entries(folder: Path) -> list[CacheEntry]:
    """All entries, those that were used last first; what vanishes meanwhile is left out."""
    found = (entry for part in CACHE_PARTS for entry in _entries_of(folder / part, part))
    return sorted(found, key=lambda entry: -entry.used)


def _entries_of(folder: Path, part: str) -> Iterator[CacheEntry]:
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if path.suffix in (".agc", ".entry") and not path.is_symlink():
                status = path.stat()
                model = _model_name(path) if path.suffix == ".agc" else ""
                yield CacheEntry(path, part, status.st_size, status.st_mtime, model)


def _model_name(path: Path) -> str:
    """What a compiled model was made from; empty if its file does not say."""
    try:
        made = read_metadata(path).get("made") or {}
    except UsageError:
        return "(damaged)"
    return ", ".join(file["name"] for file in made.get("files", ()))


def chosen_entries(
    entries: Iterable[CacheEntry], max_bytes: int | None, max_age: float | None
) -> list[CacheEntry]:
    """What has to go: all that was not used for an age, and the oldest until the rest fits."""
    by_use = sorted(entries, key=lambda entry: -entry.used)
    total, gone = 0, []
    for entry in by_use:
        too_old = max_age is not None and entry.age > max_age
        total += 0 if too_old else entry.bytes
        if too_old or (max_bytes is not None and total > max_bytes):
            total -= 0 if too_old else entry.bytes
            gone.append(entry)
    return gone


def remove_entries(entries: Iterable[CacheEntry]) -> tuple[int, int]:
    """Delete entries; how many, and their bytes.

    Another process that has one open goes on using it; one that looks for it makes it anew.
    """
    count = size = 0
    for entry in entries:
        with contextlib.suppress(OSError):
            entry.path.unlink()
            count, size = count + 1, size + entry.bytes
    return count, size
