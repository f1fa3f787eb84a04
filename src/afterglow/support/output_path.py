"""Where results are written: paths that callers give, and what can be wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from afterglow.support.errors import UsageError


def checked_path(path: Any, what: str) -> Path:
    """A path that a caller gives, of a file or folder that `what` names."""
    text = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"the path of a {what} must be text or a pathlib.Path, got {path!r}")
    if not text or "\0" in text:
        raise UsageError(f"no {what} can be called {text!r}")
    return Path(text)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say which path cannot be written, and why."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from None


def unwritable(path: Path, error: OSError) -> UsageError:
    """The error of a file that cannot be written."""
    return UsageError(f"cannot write {path}: {(error.strerror or str(error)).lower()}")
