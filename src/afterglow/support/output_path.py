"""Validation of output paths, and errors about those that cannot be written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afterglow.support.errors import UsageError

MARK = b"written by Afterglow"
"""Comment at the end of code, SVG files and archives, which identifies files of Afterglow."""


def checked_path(path: Any, what: str) -> Path:
    """The validated path of an output; `what` names the kind of file or folder in errors."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"the path of a {what} must be a string or a pathlib.Path, got {path!r}")
    if not text or "\0" in text:
        raise UsageError(f"no {what} can be called {text!r}")
    return Path(text)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn errors of the file system into errors that name the path."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> UsageError:
    """The error of a file that cannot be written."""
    return UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}")
