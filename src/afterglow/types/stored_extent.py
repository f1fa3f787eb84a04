"""Extents as what JSON can hold, and back."""

from __future__ import annotations

from typing import Any

from afterglow.support.lexer import TokenStream
from afterglow.types.extent import Dim, RangedExtent, ranged
from afterglow.types.extent_text import parse_extent


def describe_extent(extent: int) -> Any:
    """A number as it is; an expression as its text, with the bounds of its dimensions."""
    if not isinstance(extent, RangedExtent):
        return extent
    return [str(extent), [[dim.name, dim.low, dim.high, dim.step] for dim in extent.dims]]


def restore_extent(data: Any) -> int:
    """The extent that was described so."""
    if isinstance(data, int):
        return data
    text, dims = data
    tokens = TokenStream(text)
    tokens.extents.update((name, ranged(Dim(name, *bounds))) for name, *bounds in dims)
    return parse_extent(tokens)
