"""Scans, with the operands and attributes of ONNX's.

Our op goes forward along the first axis; other ways are transposed and reversed.
"""

from __future__ import annotations

from collections.abc import Sequence

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.driven import drive_scan
from afterglow.graph import Function, Value
from afterglow.ops.control import Scan
from afterglow.ops.loop_bounds import Carried, LoopFacts
from afterglow.ops.movement import Concat, Pad, Reshape, Transpose, slice_axis
from afterglow.ops.rules import normal_axis
from afterglow.support.errors import ModelError
from afterglow.types import TensorType
from afterglow.types.dtype import i64


def scan(n: NodeContext) -> list[Value]:
    """Any axis of each scanned value, forward or backward."""
    count = _scanned_count(n, len(n))
    values = n.values()
    carried, scanned = values[: len(n) - count], values[len(n) - count :]
    axes = _one_each(n, "scan_input_axes", count)
    backward = _one_each(n, "scan_input_directions", count)
    parts = [
        _reversed(n, _to_front(n, value, axis), way)
        for value, axis, way in zip(scanned, axes, backward, strict=True)
    ]
    results = _scan(n, carried, parts)
    stacked = results[len(carried) :]
    axes = _one_each(n, "scan_output_axes", len(stacked))
    backward = _one_each(n, "scan_output_directions", len(stacked))
    ways = zip(stacked, axes, backward, strict=True)
    placed = [_from_front(n, _reversed(n, value, way), axis) for value, axis, way in ways]
    return [*results[: len(carried)], *placed]


def batched_scan(n: NodeContext) -> list[Value]:
    """Values of a batch, one after the other: its axis is the first, the scanned one the second.

    Sequences that are shorter than the longest leave zeros behind their results.
    """
    count = _scanned_count(n, len(n) - 1)
    values = [n[index] for index in range(1, len(n))]
    backward = _one_each(n, "directions", count)
    batch = {value.type.shape[:1] for value in values}
    if len(batch) != 1 or batch & {(), (0,)}:
        raise ModelError("values must have the same extent, not 0, along the first axis")
    if any(value.type.rank < 2 for value in values[len(values) - count :]):
        raise ModelError("a scanned value must have a second axis to scan along")
    longest = values[-1].type.shape[1]
    lengths = _lengths(n, values[0].type.shape[0], longest)
    rows = []
    for index, length in enumerate(lengths):
        row = [_drop_front(n, n.emit(slice_axis(v.type, 0, index, 1), v)) for v in values]
        carried, scanned = row[: len(row) - count], row[len(row) - count :]
        cut = [n.emit(slice_axis(v.type, 0, 0, length), v) for v in scanned]
        parts = [_reversed(n, value, way) for value, way in zip(cut, backward, strict=True)]
        results = _scan(n, carried, parts)
        stacked = [_filled_up(n, value, longest) for value in results[len(carried) :]]
        rows.append([*results[: len(carried)], *stacked])
    return [_stack(n, column) for column in zip(*rows, strict=True)]


def _lengths(n: NodeContext, batch: int, longest: int) -> tuple[int, ...]:
    """The length of each sequence: all of it, unless an input tells."""
    lengths = (longest,) * batch if n.get(0) is None else n.known_ints(0)
    if len(lengths) != batch or not all(0 <= length <= longest for length in lengths):
        raise ModelError(f"sequences of {batch} x {longest} elements cannot have lengths {lengths}")
    return lengths


def _filled_up(n: NodeContext, x: Value, length: int) -> Value:
    missing = length - x.type.shape[0]
    if not missing:
        return x
    none = (0,) * (x.type.rank - 1)
    return n.emit(Pad((0, *none), (missing, *none)), x)


def _scan(n: NodeContext, carried: Sequence[Value], parts: Sequence[Value]) -> Sequence[Value]:
    lengths = {value.type.shape[0] for value in parts}
    if len(lengths) != 1:
        raise ModelError(f"scanned values have different lengths: {sorted(lengths)}")
    if n.is_driven:
        return drive_scan(n, carried, parts, lengths.pop())
    pieces = [value.type.with_shape(value.type.shape[1:]) for value in parts]
    body, captured = n.body("body", [*(value.type for value in carried), *pieces])
    length = lengths.pop()
    n.graph.session.end_loop(_facts(body.function, length, carried))
    op = Scan(body, length, len(carried), len(parts))
    return n.emit_all(op, *carried, *parts, *captured)


def _facts(body: Function, length: int, carried: Sequence[Value]) -> LoopFacts:
    """What a scan tells about the integers in its body, which has no number of the iteration."""
    after = [output.value for output in body.outputs]
    pairs = [Carried(*each) for each in zip(body.inputs, carried, after, strict=False)]
    return LoopFacts(body, Value("iteration", TensorType(i64, ())), length, pairs)


def _scanned_count(n: NodeContext, most: int) -> int:
    count = n.integer("num_scan_inputs")
    if not 0 < count <= most:
        raise ModelError(f"it cannot scan {count} of its {most} inputs")
    return count


def _one_each(n: NodeContext, name: str, count: int) -> tuple[int, ...]:
    """A list attribute with an entry for each value; zeros if it is not set."""
    entries = n.integers(name, (0,) * count)
    if len(entries) != count:
        raise ModelError(f"attribute {name!r} must have {count} entries, it has {len(entries)}")
    return entries


def _to_front(n: NodeContext, x: Value, axis: int) -> Value:
    axis = normal_axis(axis, x.type)
    others = [other for other in range(x.type.rank) if other != axis]
    return n.emit(Transpose((axis, *others)), x) if axis else x


def _from_front(n: NodeContext, x: Value, axis: int) -> Value:
    axis = normal_axis(axis, x.type)
    others = list(range(1, x.type.rank))
    return n.emit(Transpose((*others[:axis], 0, *others[axis:])), x) if axis else x


def _reversed(n: NodeContext, x: Value, is_backward: int) -> Value:
    length = x.type.shape[0]
    if not is_backward or length == 0:
        return x
    return n.emit(slice_axis(x.type, 0, length - 1, length, -1), x)


def _drop_front(n: NodeContext, x: Value) -> Value:
    return n.emit(Reshape(x.type.shape[1:]), x)


def _stack(n: NodeContext, rows: Sequence[Value]) -> Value:
    return n.emit(Concat(0), *(n.emit(Reshape((1, *row.type.shape)), row) for row in rows))
