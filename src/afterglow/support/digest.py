"""Digests under which things are cached: equal for equal content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def digest_of_texts(texts: Iterable[str]) -> str:
    """A digest that tells every sequence of texts from every other."""
    return digest_of_bytes("".join(f"{len(text)} {text}" for text in texts).encode())


def digest_of_bytes(data: bytes | memoryview) -> str:
    """A digest of bytes."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()
