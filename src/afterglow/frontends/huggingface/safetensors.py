"""The tensors of safetensors files: a header in JSON, then bytes that stay where they are."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from afterglow.frontends.language.facts import Facts
from afterglow.frontends.language.weights import FLOATS, Weight
from afterglow.support.errors import ModelError, UnsupportedError

MOST_HEADER = 100_000_000
"""Bytes that a header may take, as the format has it."""
_MOST_AXES = 8


def read_tensors(data: memoryview) -> dict[str, Weight]:
    """The tensors of a file by name."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(MOST_HEADER, len(data) - 8):
        raise ModelError(
            "the file ends within its header", help="it was cut off or is damaged: get it again"
        )
    header = read_json(data[8 : 8 + size], "the header")
    body = data[8 + size :]
    return {
        name: _tensor(name, entry, body) for name, entry in header.items() if name != "__metadata__"
    }


def read_json(data: bytes | memoryview, what: str) -> Mapping[str, Any]:
    """An object in JSON."""
    try:
        found = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{what} is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise ModelError(f"{what} is no object of JSON")
    return found


def _tensor(name: str, entry: Any, body: memoryview) -> Weight:
    what = f"tensor {name!r}"
    if not isinstance(entry, dict):
        raise ModelError(f"the header says nothing about {what}")
    facts = Facts(entry, what)
    dtype = facts.text("dtype")
    if dtype not in FLOATS:
        raise UnsupportedError(
            f"{what} holds {dtype}, which is not supported",
            help=f"save the model with {', '.join(FLOATS)}",
        )
    shape, offsets = facts.integers("shape"), facts.integers("data_offsets")
    if len(shape) > _MOST_AXES or any(extent < 1 for extent in shape):
        raise ModelError(f"{what} is {shape}, which cannot be")
    nbytes = math.prod(shape) * FLOATS[dtype].nbytes
    if len(offsets) != 2 or offsets[0] < 0 or offsets[1] - offsets[0] != nbytes:
        raise ModelError(f"{what} takes {nbytes:,} bytes, and its offsets are {offsets}")
    if offsets[1] > len(body):
        raise ModelError(
            f"the file ends within {what}: it takes {nbytes:,} bytes at {offsets[0]:,} of "
            f"{len(body):,}",
            help="the file was cut off or is damaged: get it again",
        )
    return Weight(name, tuple(shape), FLOATS[dtype], body[offsets[0] : offsets[1]])
