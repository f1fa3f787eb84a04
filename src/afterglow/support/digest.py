"""Digests for cache keys: equal for equal content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest_of_texts(texts: Iterable[str]) -> str:
    """A digest of a sequence of strings; different sequences have different digests."""
    return digest_of_bytes("".join(f"{len(text)} {text}" for text in texts).encode())


def digest_of_bytes(data: bytes | memoryview) -> str:
    """A digest of bytes."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()
