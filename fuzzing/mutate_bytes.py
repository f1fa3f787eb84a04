"""Mutation of files as bytes: flips, cuts, repeats and splices."""

from __future__ import annotations

import random

VALUES = [0, 1, 0x7F, 0x80, 0xFF]


def mutate_bytes(data: bytes, rng: random.Random, other: bytes) -> bytes:
    """Make one to eight random changes."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 8])):
        if changed:
            _change(changed, rng, other)
    return bytes(changed)


def _change(data: bytearray, rng: random.Random, other: bytes) -> None:
    at = rng.randrange(len(data))
    length = rng.randint(1, 1 << rng.randint(0, 8))
    match rng.randint(0, 7):
        case 0 | 1:
            data[at] ^= 1 << rng.randint(0, 7)
        case 2:
            data[at] = rng.choice(VALUES)
        case 3:
            del data[at:]
        case 4:
            del data[at : at + length]
        case 5:
            data[at:at] = data[at : at + length]
        case 6 if other:
            start = rng.randrange(len(other))
            data[at : at + length] = other[start : start + length]
        case _:
            data[at : at + length] = bytes([rng.choice(VALUES)]) * length
