"""A tensor with a part of it replaced."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Gradients, Value, op
from afterglow.instr import Buffer, ProgramBuilder
from afterglow.ops.fill import Fill
from afterglow.ops.movement import Movement, Slice, taken
from afterglow.ops.rules import require, require_rank, require_same_dtype
from afterglow.types import Array, TensorType


@op("overwrite")
class Overwrite(Movement):
    """data with a window of it replaced by x, whose first element has the index `starts`."""

    starts: tuple[int, ...]

    def infer(self, data: TensorType, x: TensorType) -> TensorType:
        """The type of data, in which all of x must fit."""
        require_same_dtype(data=data, x=x)
        require_rank(data.rank, x=x)
        require(
            len(self.starts) == data.rank,
            f"starts must have one entry per axis of {data}, got {len(self.starts)}",
        )
        axes = enumerate(zip(self.starts, x.shape, data.shape, strict=True))
        for axis, (start, extent, room) in axes:
            require(
                start >= 0 and start + extent <= room,
                f"elements {start} to {start + extent - 1} along axis {axis} are not all in {data}",
            )
        require(data.quantization == x.quantization, f"data is {data}, but x is {x}")
        return data

    def evaluate(self, data: Array, x: Array) -> Array:
        """A copy, and an assignment to a basic index."""
        out = np.array(data)
        places = zip(self.starts, x.shape, strict=True)
        out[tuple(slice(start, start + extent) for start, extent in places)] = x
        return out

    def gradient(self, b: Builder, out: Value, grad: Value, data: Value, x: Value) -> Gradients:
        """Zeros where x went, which has its own window."""
        nothing = b.emit(Fill(x.type.shape, 0.0, x.type.dtype))
        window = Slice(self.starts, x.type.shape, (1,) * len(self.starts))
        return b.emit(Overwrite(self.starts), grad, nothing), b.emit(window, grad)

    def select(self, p: ProgramBuilder, out: Buffer, data: Buffer, x: Buffer) -> None:
        """Copies; state is overwritten where it lies, and then the first is none."""
        p.copy(out, data)
        p.copy(p.window(out, self.starts, x.type.shape), x)

    def permuted(self, perm: tuple[int, ...]) -> Overwrite:
        """The entries in the new order."""
        return Overwrite(taken(self.starts, perm))
