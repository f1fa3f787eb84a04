"""Results without operands: one number everywhere, counting along an axis, or extents of the run.

The first two are moves of a small table that is repeated.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import convert
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.move import StridedMove, write_move
from afterglow.ops.extents import Extents
from afterglow.ops.fill import Fill
from afterglow.ops.indexing import Iota
from afterglow.types import Array


@kernel(Fill)
def write_fill(k: Kernel) -> None:
    """Write a kernel that repeats one number along every axis."""
    op = k.step.op
    assert isinstance(op, Fill)
    _write_table(k, np.full((1,), op.value, op.dtype.numpy), None)


@kernel(Iota)
def write_iota(k: Kernel) -> None:
    """Write a kernel that counts along one axis, repeated along every other."""
    op = k.step.op
    assert isinstance(op, Iota)
    axis = op.axis % len(op.shape)
    _write_table(k, np.arange(op.shape[axis]).astype(op.dtype.numpy), axis)


def _write_table(k: Kernel, table: Array, axis: int | None) -> None:
    (out,) = k.step.outs
    source = tuple(int(at == axis) for at in range(out.type.rank))
    move = StridedMove.of(out.type.shape, out.strides, source)
    write_move(k, lambda p: p.table("numbers", table), move)


@kernel(Extents, epilogue=False)
def write_extents(k: Kernel) -> None:
    """Write a kernel that stores each extent at its place."""
    op, (out,) = k.step.op, k.step.outs
    assert isinstance(op, Extents)
    places = [
        sum(i * n for i, n in zip(at, out.strides, strict=True)) for at in np.ndindex(op.shape)
    ]
    with k.phase(1, float(len(places))) as p:
        pointer = p.pointer(out)
        with p.units():
            for place, extent in zip(places, op.values, strict=True):
                pointer.store(convert(p.e.index(extent), op.dtype), place)
