"""Values that grow by appending, in memory that has room for all of it from the start.

present = concat(past, new)  ->  written = overwrite(room, new), from where `past` ends;
present = slice(written)
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.graph import Builder, Function, Node, Value
from afterglow.graph.value import Placeholder
from afterglow.ops.append_rows import AppendRows, append_in_place
from afterglow.ops.movement import Concat, Slice
from afterglow.ops.overwrite import Overwrite
from afterglow.types import TensorType
from afterglow.types.extent import largest


def room_type(grown: TensorType, axis: int) -> TensorType:
    """The type of memory with room for the largest extent of a value along an axis."""
    shape = [*grown.shape]
    shape[axis] = largest(shape[axis])
    return grown.with_shape(shape)


def grow_in_place(
    function: Function, past: Placeholder, present: Value, room: Placeholder, axis: int
) -> Value:
    """Have a function read a value from its room, and append there; the new value of the room.

    `past` is what an input was before; `present` is it after that, longer along an axis.
    """
    written = _appended(function, past, present, room, axis)
    read_from_room(function, past, room)
    return written


def read_from_room(function: Function, past: Placeholder, room: Placeholder) -> None:
    """Have a function read a value where it begins in its room."""
    if past.uses or any(value is past for value in function.escaping()):
        first = Builder(function, next(function.nodes, None))
        function.replace(past, _window(first, room, past.type))


def _appended(
    function: Function, past: Placeholder, present: Value, room: Placeholder, axis: int
) -> Value:
    """The room with what is new; what else reads the present value reads it there."""
    node = present.producer
    if node is None or past in node.operands[1:] or node.operands[0] is not past:
        return _copied(function, present, room)
    b = Builder(function, node, origins=node.origins)
    if isinstance(node.op, Concat) and node.op.axis % past.type.rank == axis:
        written = _written_behind(b, past, node.given[1:], room, axis)
    elif isinstance(node.op, AppendRows) and axis == 2 and _is_masked(node, present):
        _, new, starts = node.given
        written = append_in_place(b, room, new, starts)
    else:
        return _copied(function, present, room)
    function.replace(present, _window(b, written, present.type))
    function.erase(node)
    return written


def _copied(function: Function, present: Value, room: Placeholder) -> Value:
    """The room with the whole present value at its beginning."""
    origins = () if present.producer is None else present.producer.origins
    b = Builder(function, origins=origins)
    return b.emit(Overwrite((0,) * room.type.rank), room, present)


def _written_behind(
    b: Builder, past: Placeholder, parts: Sequence[Value], room: Placeholder, axis: int
) -> Value:
    """The room with parts from where the past ends."""
    new = parts[0] if len(parts) == 1 else b.emit(Concat(axis), *parts)
    starts = [0] * new.type.rank
    starts[axis] = past.type.shape[axis]
    return b.emit(Overwrite(tuple(starts)), room, new)


def _is_masked(node: Node, present: Value) -> bool:
    """Whether rows are read by the attention that appends them: it masks what is behind them."""
    return all(user.origin == node.origin for user, _ in present.uses)


def _window(b: Builder, x: Value, type: TensorType) -> Value:
    """The beginning of a value along each axis."""
    rank = type.rank
    return x if x.type == type else b.emit(Slice((0,) * rank, type.shape, (1,) * rank), x)
