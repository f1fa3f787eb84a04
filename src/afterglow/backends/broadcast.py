"""How operands are broadcast to a result: strides within its shape, and as few axes as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from afterglow.graph import Op
from afterglow.instr import Buffer, OpInstr

Strides = tuple[int, ...]


def strides_within(buffer: Buffer, shape: Sequence[int], axis: int | None = None) -> Strides:
    """How far apart a buffer's elements lie along each axis of a shape that it is broadcast to.

    A vector runs along `axis`, if that is given, rather than along the last one.
    """
    extents, strides = buffer.type.shape, buffer.strides
    if axis is not None and len(extents) == 1:
        step = strides[0] if extents[0] != 1 else 0
        return tuple(step if i == axis % len(shape) else 0 for i in range(len(shape)))
    repeated = (0,) * (len(shape) - len(extents))
    own = (0 if extent == 1 else s for extent, s in zip(extents, strides, strict=True))
    return (*repeated, *own)


def own_axis(op: Op, operand: str) -> int | None:
    """The axis along which an op reads an operand if that is a vector; None for the last."""
    return getattr(op, "axis", None) if operand in op.along_axis else None


def merge_alike(
    shape: Sequence[int], strides: Sequence[Strides]
) -> tuple[tuple[int, ...], list[Strides]]:
    """A shape with as few axes as possible, and the strides in it of buffers that all allow it."""
    kept = [axis for axis, extent in enumerate(shape) if extent != 1]
    groups: list[list[int]] = [[axis] for axis in kept[:1]]
    for before, axis in pairwise(kept):
        extent = shape[axis]
        if all(s[before] == s[axis] * extent for s in strides):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    extents = tuple(math.prod(shape[axis] for axis in group) for group in groups) or (1,)
    merged = [tuple(s[group[-1]] for group in groups) or (0,) for s in strides]
    return extents, merged


def chain_strides(steps: Sequence[OpInstr], shape: Sequence[int]) -> dict[Buffer, Strides]:
    """The strides, in a shape, of everything that element-wise steps read and write."""
    strides: dict[Buffer, Strides] = {}
    for step in steps:
        for out in step.outs:
            strides[out] = strides_within(out, shape)
        for name, operand in zip(step.op.operand_names, step.ins, strict=False):
            if operand is not None and operand not in strides:
                strides[operand] = strides_within(operand, shape, own_axis(step.op, name))
    return strides


def reads_alike(steps: Sequence[OpInstr], shape: Sequence[int]) -> bool:
    """Whether every operand that several steps read is broadcast to the shape alike."""
    strides: dict[Buffer, Strides] = {}
    return all(
        strides.setdefault(b, own) == own
        for step in steps
        for name, b in zip(step.op.operand_names, step.ins, strict=False)
        if b is not None
        for own in (strides_within(b, shape, own_axis(step.op, name)),)
    )
