"""ONNX's ops on sequences, whose length is known when importing."""

from __future__ import annotations

from afterglow.frontends.common.movement import integer_constant, reshaped, split_along
from afterglow.frontends.definition.context import NodeContext, StaticSequence
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.movement import Concat
from afterglow.ops.rules import normal_axis

MOST_PARTS = 2**14
"""Parts into which a tensor is split, at most: each is a tensor of its own."""


@onnx_op("SequenceEmpty")
def sequence_empty(n: NodeContext) -> StaticSequence:
    """No elements."""
    return StaticSequence()


@onnx_op("SequenceConstruct")
def sequence_construct(n: NodeContext) -> StaticSequence:
    """The operands."""
    return StaticSequence(n.values())


@onnx_op("SequenceLength")
def sequence_length(n: NodeContext) -> Value:
    """How many elements there are."""
    return integer_constant(n, len(n.sequence(0)))


@onnx_op("SequenceAt")
def sequence_at(n: NodeContext) -> Value:
    """One element."""
    return n.sequence(0)[_position(n, 1, len(n.sequence(0)))]


@onnx_op("SequenceInsert")
def sequence_insert(n: NodeContext) -> StaticSequence:
    """Put an element before a position, or at the end."""
    elements = n.sequence(0)
    at = _position(n, 2, len(elements) + 1) if n.get(2) is not None else len(elements)
    return StaticSequence((*elements[:at], n[1], *elements[at:]))


@onnx_op("SequenceErase")
def sequence_erase(n: NodeContext) -> StaticSequence:
    """Leave out an element: the last if no position is given."""
    elements = n.sequence(0)
    at = _position(n, 1, len(elements)) if n.get(1) is not None else len(elements) - 1
    return StaticSequence((*elements[:at], *elements[at + 1 :]))


def _position(n: NodeContext, index: int, positions: int) -> int:
    """A known position, which may count from the end of the sequence."""
    length = len(n.sequence(0))
    given = n.known_int(index)
    position = given + length if given < 0 else given
    if not 0 <= position < positions:
        raise n.fail(f"position {given} is out of range for a sequence of {length}")
    return position


@onnx_op("SplitToSequence")
def split_to_sequence(n: NodeContext) -> StaticSequence:
    """Parts of given lengths, of one length with a shorter last one, or single slices."""
    x, lengths = n[0], n.get(1)
    axis = normal_axis(n.integer("axis", 0), x.type)
    extent = x.type.shape[axis]
    if lengths is not None and lengths.type.rank:
        return StaticSequence(split_along(n, x, axis, n.known_extents(1)))
    length = n.known_int(1) if lengths is not None else 1
    if length < 1:
        raise n.fail(f"parts of length {length} do not make up axis {axis} of {x.type}")
    if -(-extent // length) > MOST_PARTS:
        raise n.fail(f"it makes {-(-extent // length):,} parts, the limit is {MOST_PARTS:,}")
    equal = [min(length, extent - start) for start in range(0, extent, length)]
    parts = split_along(n, x, axis, equal)
    if lengths is None and not n.integer("keepdims", 1):
        shape = (*x.type.shape[:axis], *x.type.shape[axis + 1 :])
        parts = [reshaped(n, part, shape) for part in parts]
    return StaticSequence(parts)


@onnx_op("ConcatFromSequence")
def concat_from_sequence(n: NodeContext) -> Value:
    """Join the elements along an axis, or along a new one."""
    parts = list(n.sequence(0))
    if not parts:
        raise n.fail("an empty sequence cannot be joined")
    axis = n.integer("axis")
    rank = parts[0].type.rank
    if not n.integer("new_axis", 0):
        return n.emit(Concat(normal_axis(axis, parts[0].type)), *parts)
    axis %= rank + 1
    columns = [
        reshaped(n, part, (*part.type.shape[:axis], 1, *part.type.shape[axis:])) for part in parts
    ]
    return n.emit(Concat(axis), *columns)
