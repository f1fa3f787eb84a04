"""What the environment says. The only reader of it."""

from __future__ import annotations

import os
from pathlib import Path

from afterglow.support.disk_cache import default_folder
from afterglow.support.errors import UsageError


def verify_by_default() -> bool:
    """Whether AFTERGLOW_VERIFY asks to verify after each pass."""
    return _is_set("AFTERGLOW_VERIFY")


def perf_map_by_default() -> bool:
    """Whether AFTERGLOW_PERF_MAP asks to tell the profiler `perf` the names of functions."""
    return _is_set("AFTERGLOW_PERF_MAP")


def cache_folder(wish: bool | str | Path) -> Path | None:
    """The folder of the cache: the one given, the usual one for True, none for False."""
    if isinstance(wish, bool):
        return default_folder(os.environ) if wish else None
    if not isinstance(wish, (str, os.PathLike)):
        raise UsageError(
            f"cache must be a folder, True or False, got {wish!r}", help="write cache='FOLDER'"
        )
    return Path(wish)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
