"""What the environment says. The only reader of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from afterglow.support.disk_cache import CACHE_PARTS, FOLDER_VARIABLES, default_folder
from afterglow.support.errors import UsageError, warn
from afterglow.support.private_folder import why_not_private
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


def usual_cache_folder() -> Path:
    """Where the cache lies unless a caller says otherwise."""
    return default_folder(os.environ)


def cache_variables() -> dict[str, str | None]:
    """The variables that say where that is; the first that is set counts."""
    return {name: os.environ.get(name) for name in FOLDER_VARIABLES}


def cache_folder(choice: Any) -> Path | None:
    """The folder of the cache: the one given, the usual one for True, none for False.

    None, too, for a folder in which others may have put something: it would be run.
    """
    if choice is False:
        return None
    if choice is not True and (not isinstance(choice, (str, Path)) or not str(choice)):
        raise UsageError(
            f"the cache cannot be {choice!r}",
            help="give a folder, True for the default one, or False",
        )
    folder = usual_cache_folder() if choice is True else Path(choice)
    for path in (folder, *(folder / part for part in CACHE_PARTS)):
        reason = why_not_private(path)
        if reason is not None:
            warn(
                f"nothing is cached, because {path} cannot be trusted: {reason}; "
                "set AFTERGLOW_CACHE to a folder that only you may write"
            )
            return None
    return folder


def _is_set(variable: str) -> bool:
    return os.environ.get(variable, "") not in ("", "0")
