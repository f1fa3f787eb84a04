"""What the environment says. The only reader of it."""

from __future__ import annotations

import os
from pathlib import Path

from afterglow.support.disk_cache import default_folder
from afterglow.support.sizes import parse_size


def verify_by_default() -> bool:
    """Whether AFTERGLOW_VERIFY asks to verify after each pass."""
    return _is_set("AFTERGLOW_VERIFY")


def perf_map_by_default() -> bool:
    """Whether AFTERGLOW_PERF_MAP asks to tell the profiler `perf` the names of functions."""
    return _is_set("AFTERGLOW_PERF_MAP")


def max_memory_by_default() -> int | None:
    """The limit of memory that AFTERGLOW_MAX_MEMORY sets, as text such as "2GiB"; None without."""
    text = os.environ.get("AFTERGLOW_MAX_MEMORY", "")
    return parse_size(text) if text else None


def cache_folder(wish: bool | str | Path) -> Path | None:
    """The folder of the cache: the one given, the usual one for True, none for False."""
    if isinstance(wish, bool):
        return default_folder(os.environ) if wish else None
    return Path(wish)


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
