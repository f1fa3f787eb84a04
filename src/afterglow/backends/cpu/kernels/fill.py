"""Results without operands: one number everywhere, or counting along an axis.

Both are moves of a small table that is repeated.
"""

from __future__ import annotations

import numpy as np

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.move import StridedMove, write_move
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
