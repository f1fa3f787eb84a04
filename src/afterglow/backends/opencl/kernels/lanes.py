"""What the lanes of a vector give together."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.backends.items.language import Combine
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.types import spell


def half_of(vector: Value, which: str) -> Value:
    """Half of the lanes of a vector: `lo`, `hi`, `even` or `odd`."""
    return Value(vector.code, vector.dtype, vector.lanes // 2, f"{vector.text}.{which}")


def sums_of(vectors: Sequence[Value]) -> Value:
    """The sum of each of some vectors, as the lanes of one; both counts are powers of two."""
    found, addends = list(vectors), vectors[0].lanes
    while len(found) > 1:
        join = _joined if addends == 1 else _added_in_pairs
        addends = max(1, addends // 2)
        found = _in_pairs(join, found)
    (total,) = found
    while total.lanes > len(vectors):
        total = half_of(total, "even") + half_of(total, "odd")
    return total


def join_lanes(parts: Sequence[Value]) -> Value:
    """The lanes of some vectors, one after the other; both counts are powers of two."""
    found = list(parts)
    while len(found) > 1:
        found = _in_pairs(_joined, found)
    return found[0]


def _in_pairs(join: Combine[Value], parts: Sequence[Value]) -> list[Value]:
    return [join(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]


def _added_in_pairs(first: Value, second: Value) -> Value:
    """The sums of neighbouring lanes: those of the first vector, then those of the second."""
    halves = (_joined(half_of(first, which), half_of(second, which)) for which in ("even", "odd"))
    return next(halves) + next(halves)


def _joined(first: Value, second: Value) -> Value:
    """The lanes of two vectors, one after the other."""
    lanes = 2 * first.lanes
    return first.derive(f"({spell(first.dtype, lanes)})({first.text}, {second.text})", lanes=lanes)
