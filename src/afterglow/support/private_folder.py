"""Folders that only their owner can write to, so that cached code in them can be trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, each for its owner alone."""
    missing = [folder]
    while not missing[-1].parent.exists() and missing[-1].parent != missing[-1]:
        missing.append(missing[-1].parent)
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def why_not_private(folder: Path) -> str | None:
    """Why other users may have written to a folder; None if they cannot, or it is missing.

    The superuser can write everywhere anyway, so folders that belong to it are accepted.
    """
    if not hasattr(os, "geteuid"):
        return None
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return None
    if status.st_uid not in (os.geteuid(), 0):
        return "it belongs to another user"
    if stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWOTH:
        return "every user may write there"
    return None
