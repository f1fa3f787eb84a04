"""Shuffles of channels and places, as strided moves."""

from __future__ import annotations

from afterglow.backends.broadcast import Strides
from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.micro.kernel import Kernel
from afterglow.backends.cpu.micro.move import StridedMove, write_move
from afterglow.instr import Buffer
from afterglow.ops.movement import taken
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, Shuffle, SpaceToDepth


@kernel(DepthToSpace)
def write_depth_to_space(k: Kernel) -> None:
    """Write a shuffle that does not split rows of the result, which an epilogue may work on."""
    _write_shuffle(k)


@kernel(ChannelShuffle, SpaceToDepth, epilogue=False)
def write_other_shuffle(k: Kernel) -> None:
    """Write a shuffle that splits rows of the result."""
    _write_shuffle(k)


def _write_shuffle(k: Kernel) -> None:
    op, (x,), (out,) = k.step.op, k.step.required, k.step.outs
    assert isinstance(op, Shuffle)
    split, perm, _ = op.steps(x.type.shape)
    parts = taken(split, perm)
    source = taken(_split_strides(x, split), perm)
    write_move(k, lambda p: p.pointer(x), StridedMove.of(parts, _split_strides(out, parts), source))


def _split_strides(buffer: Buffer, parts: tuple[int, ...]) -> Strides:
    """How far apart elements lie along the parts into which the axes of a buffer are split."""
    strides: list[int] = []
    left = [*parts]
    for extent, stride in zip(buffer.type.shape, buffer.strides, strict=True):
        inside = extent
        while left and (inside != 1 or extent == left[0] == 1):
            part = left.pop(0)
            inside //= part
            strides.append(inside * stride)
    return (*strides, *(0 for _ in left))
