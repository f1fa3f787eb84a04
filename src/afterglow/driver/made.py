"""What a compiled model was made from, as its file says it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

from afterglow.driver.options import Options
from afterglow.support.regular_file import open_regular

_NAMED = (
    *("backend", "target", "devices", "shapes", "dims", "state", "optimize", "donate_inputs"),
    *("max_arena", "max_memory", "checkpoint", "precision", "quantization", "keep", "allow"),
    *("activations", "cache_type", "tune"),
)
"""The options that a file names, if they are not the defaults."""


def made_from(files: Sequence[Path], options: Options, *, digests: bool = True) -> dict[str, Any]:
    """The compiler, the model's files with their digests, and the options, as JSON can hold it."""
    return {
        "afterglow": own_version(),
        "files": [
            {"name": path.name, "sha256": sha256_of(path) if digests else None} for path in files
        ],
        "options": _options(options),
    }


def own_version() -> str:
    """The version of this package; empty if it is not installed."""
    metadata = import_module("importlib.metadata")  # only files need it, and it is slow to load
    try:
        return str(metadata.version("afterglow"))
    except metadata.PackageNotFoundError:
        return ""


def sha256_of(path: Path) -> str | None:
    """The SHA-256 of a file, as `sha256sum` prints it; None if it cannot be read any more."""
    try:
        with open_regular(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _options(options: Options) -> dict[str, str]:
    usual = Options()
    given = {field.name: getattr(options, field.name) for field in fields(options)}
    return {name: _text(given[name]) for name in _NAMED if given[name] != getattr(usual, name)}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(each)}" for name, each in value.items())
    return str(value)
