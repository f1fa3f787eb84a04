"""Amounts of memory as people write them."""

from __future__ import annotations

import re
from operator import index
from typing import Any

from afterglow.support.errors import UsageError

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE | re.ASCII)


def as_size(given: int | str) -> int:
    """Bytes, from a number or a string such as "1.5 MB"."""
    if isinstance(given, str):
        return parse_size(given)
    if isinstance(given, bool) or not hasattr(given, "__index__") or index(given) < 0:
        raise _no_size(given)
    return index(given)


def parse_size(text: str) -> int:
    """Bytes, from "256KiB", "1.5 MB" or "65536"; fractions of a byte are cut off."""
    match = _SIZE.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise _no_size(text)
    return int(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit


def _no_size(given: Any) -> UsageError:
    return UsageError(
        f"{given!r} is not an amount of memory", help="write 256KiB, 1MB, or a number of bytes"
    )
