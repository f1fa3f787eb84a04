"""ONNX's ops on sequences, whose length is known when importing."""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.common.lists import appended, concatenated, elements_of, length_of
from afterglow.frontends.common.movement import integer_constant, reshaped, split_along
from afterglow.frontends.definition.context import Imported, NodeContext, RowList, StaticSequence
from afterglow.frontends.definition.model import FIRST_ROWS, ROWS_DOMAIN, SEQUENCE_OF_ROWS
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.movement import Concat, slice_axis
from afterglow.ops.rules import normal_axis

MOST_PARTS = 2**14
"""Parts into which a tensor is split, at most: each is a tensor of its own."""


@onnx_op("SequenceEmpty")
def sequence_empty(n: NodeContext) -> StaticSequence:
    """No elements."""
    return StaticSequence()


@onnx_op(FIRST_ROWS, domain=ROWS_DOMAIN)
def first_rows(n: NodeContext) -> Sequence[Imported | None]:
    """What a loop appended to a list: the first rows of those that there may be, or all."""
    rows = n.operands[0]
    if not isinstance(rows, Value) or n.get(1) is None:
        return [rows]
    (count,) = n.known_extents(1)
    return [n.emit(slice_axis(rows.type, 0, 0, count), rows)]


@onnx_op(SEQUENCE_OF_ROWS, domain=ROWS_DOMAIN)
def sequence_of_rows(n: NodeContext) -> Sequence[Imported | None]:
    """A list of rows, if it is not a sequence already."""
    rows = n.operands[0]
    return [RowList(((rows, None),)) if isinstance(rows, Value) else rows]


@onnx_op("SequenceConstruct")
def sequence_construct(n: NodeContext) -> StaticSequence:
    """The operands."""
    return StaticSequence(n.values())


@onnx_op("SequenceLength")
def sequence_length(n: NodeContext) -> Value:
    """How many elements there are."""
    if isinstance(n.operands[0], RowList):
        return length_of(n, n.operands[0])
    return integer_constant(n, len(n.sequence(0)))


@onnx_op("SequenceAt")
def sequence_at(n: NodeContext) -> Value:
    """One element."""
    elements = _sequence(n)
    return elements[_position(n, 1, len(elements), len(elements))]


@onnx_op("SequenceInsert")
def sequence_insert(n: NodeContext) -> StaticSequence | RowList:
    """Put an element before a position, or at the end."""
    rows = n.operands[0]
    if isinstance(rows, RowList) and rows.base is not None:
        at_end, known = n.get(2) is None, None if n.get(2) is None else n.value_if_known(n[2])
        if at_end or (known is not None and not known.any()):
            return appended(n, rows, n[1], is_before=not at_end)
    elements = _sequence(n)
    length = len(elements)
    at = length if n.get(2) is None else _position(n, 2, length + 1, length)
    return StaticSequence((*elements[:at], n[1], *elements[at:]))


@onnx_op("SequenceErase")
def sequence_erase(n: NodeContext) -> StaticSequence:
    """Leave out an element: the last if no position is given."""
    elements = _sequence(n)
    length = len(elements)
    at = length - 1 if n.get(1) is None else _position(n, 1, length, length)
    return StaticSequence((*elements[:at], *elements[at + 1 :]))


def _sequence(n: NodeContext) -> StaticSequence:
    """The elements of operand 0 one by one."""
    rows = n.operands[0]
    return elements_of(n, rows) if isinstance(rows, RowList) else n.sequence(0)


def _position(n: NodeContext, index: int, positions: int, length: int) -> int:
    """A known position, which may count from the end of a sequence of some length."""
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
    if isinstance(n.operands[0], RowList):
        is_new = bool(n.integer("new_axis", 0))
        return concatenated(n, n.operands[0], n.integer("axis"), is_new=is_new)
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
