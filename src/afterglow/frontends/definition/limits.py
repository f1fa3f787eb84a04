"""How much memory a tensor may take: its size may come from a number, not from data."""

from __future__ import annotations

import math

from afterglow.runtime.native.machine import usable_memory
from afterglow.support.errors import MemoryLimitError, ModelError
from afterglow.types import TensorType
from afterglow.types.extent import largest

MOST_BYTES = 2**40
"""A tensor that takes more is a mistake."""

LEAST_LIMIT = 2**31
"""Bytes that every tensor may take, whatever the model is."""

MOST_GROWTH = 64
"""How many times the bytes of a model's constants and inputs a tensor may take besides."""

MOST_POSITIONS = 2**56
"""The product of a tensor's extents without those that are 0, at most."""

MOST_TABLE = 2**25
"""Elements of a table that is computed from a few numbers when importing, at most."""

MOST_RESAMPLED = 2**24
"""Entries of the table of neighbours along an axis that is resampled, at most."""

MOST_AXES = 32
"""As many as all of NumPy's functions can walk along."""


def tensor_limit(own_bytes: int, max_memory: int | None) -> int:
    """Bytes that a tensor may take in a model whose constants and inputs take `own_bytes`."""
    if max_memory is not None:
        return max_memory
    return min(max(LEAST_LIMIT, MOST_GROWTH * own_bytes), usable_memory())


def check_tensor(type: TensorType, limit: int) -> None:
    """Raise if a tensor takes more bytes than it may, or has a shape that no array can have."""
    check_rank(type.rank, "a result")
    if type.nbytes > limit:
        raise MemoryLimitError(
            f"a result is too large: {type} takes {type.nbytes:,} bytes, the limit is {limit:,}",
            help="allow more with max_memory, or --max-memory",
        )
    if math.prod(max(1, largest(extent)) for extent in type.shape) > MOST_POSITIONS:
        raise MemoryLimitError(f"a result is too large: no array has the shape of {type}")


def check_rank(rank: int, what: str) -> None:
    """Raise if a tensor has more axes than it may."""
    if rank > MOST_AXES:
        raise ModelError(f"{what} has {rank} axes, at most {MOST_AXES} can be")


def check_table(elements: int) -> None:
    """Raise if a table has more elements than are computed when importing."""
    if largest(elements) > MOST_TABLE:
        raise MemoryLimitError(
            f"a table of {elements:,} elements is too large, the limit is {MOST_TABLE:,}",
            help="give it to the model as an input",
        )


def check_resampled(elements: int) -> None:
    """Raise if resampling needs a table of neighbours that is too large."""
    if largest(elements) > MOST_RESAMPLED:
        raise MemoryLimitError(
            f"resampling needs a table of {elements:,} neighbours along an axis, "
            f"the limit is {MOST_RESAMPLED:,}"
        )
