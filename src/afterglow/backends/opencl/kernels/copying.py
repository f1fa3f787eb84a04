"""Elements in a row, copied into memory of a work-group."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.backends.opencl.clc import Code, Pointer, Value
from afterglow.backends.opencl.kernels.tile import pieces

LINE = 16
"""Floats of a cache line."""


def pitch_of(terms: int) -> int:
    """Elements from one row to the next: rows a power of two apart would share a cache line."""
    return -(-terms // LINE) * LINE + LINE


def copy_line(
    source: Pointer, start: Value, stride: int, dest: Pointer, place: Value, count: int, lanes: int
) -> None:
    """Copy elements that lie `stride` apart to where they are neighbours."""
    wide = lanes if stride == 1 else 1

    def copy(at: Value, width: int) -> None:
        dest.store(source.load(start + at * stride, width), place + at)

    _each(source.code, count, wide, copy)


def fill_line(dest: Pointer, place: Value, count: int, lanes: int) -> None:
    """Write zeros."""
    code = dest.code
    _each(code, count, lanes, lambda at, n: dest.store(code.constant(dest.dtype, 0, n), place + at))


def _each(code: Code, count: int, lanes: int, visit: Callable[[Value, int], None]) -> None:
    """Visit all elements, as many at once as there are lanes; the rest in pieces."""
    whole = count - count % lanes
    if whole > lanes:
        with code.loop(whole, step=lanes) as at:
            visit(at, lanes)
    elif whole:
        visit(code.index(0), lanes)
    for begin, width in pieces(count - whole, lanes):
        visit(code.index(whole + begin), width)
