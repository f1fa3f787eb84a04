"""Rows written into a cache where it lies; one that must stay as it is is copied first."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.cached_attention.places import Places
from afterglow.backends.cpu.kernels.scatter import Side, write_copy
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.micro.cost import MOVED_BYTE, work_of
from afterglow.backends.cpu.micro.fusion import SourceRow
from afterglow.backends.cpu.micro.kernel import Kernel, Phase
from afterglow.backends.cpu.micro.lanes import fitting_lanes, full_lanes
from afterglow.backends.cpu.micro.move.blocks import powers
from afterglow.backends.cpu.micro.rows import Row
from afterglow.ops.cached_attention import WriteRows
from afterglow.types.dtype import f32


@kernel(WriteRows, fuses=("rows",), epilogue=False, exact=("cache",))
def write_rows(k: Kernel) -> None:
    """A unit has one head of all tokens, in order; a token outside of the cache is left out."""
    (cache, rows), out = k.step.required[:2], k.step.outs[0]
    write_copy(k, "cache", Side.of(cache), Side.of(out))
    tokens, heads, width = rows.type.shape
    moved = work_of(rows.type.size, MOVED_BYTE * rows.type.dtype.itemsize)
    with k.phase(heads, moved, "rows") as p:
        news, places, result = p.source(1), Places(p), p.pointer(out)
        with p.units() as head, p.e.loop(tokens, name="token") as token:
            position, sequence = places.of(token)
            place = result
            for index, stride in zip((sequence, head, position), out.strides, strict=False):
                place = place + index * stride
            with p.e.when(places.exist(token)):
                _copy_row(p, news.row(token * heads + head), Row(place, out.strides[3]), width)


def _copy_row(p: Phase, row: SourceRow, line: Row, width: int) -> None:
    """Whole vectors, then what is left; rows may be converted from f32 while they are read."""
    lanes = fitting_lanes(full_lanes(p.target, f32), width)
    whole = width - width % lanes
    with p.e.loop(whole, step=lanes) as column:
        line.store(row.load(column, lanes), column)
    for start, count in powers(width - whole):
        line.store(row.load(whole + start, count), whole + start)
