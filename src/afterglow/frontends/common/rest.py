"""The rest of a body, run once, with lengths that data tell as dimensions (`definition/rest.py`).

It is a loop of one iteration, which carries the lengths as they are, and all that the rest returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.common.grown import (
    concat_parts,
    extent_value,
    results_of,
    without_base,
)
from afterglow.frontends.common.list_results import BodyRows
from afterglow.frontends.common.lists import extended
from afterglow.frontends.definition.context import (
    GrownTensor,
    Imported,
    ImportedBody,
    NodeContext,
    RowList,
)
from afterglow.frontends.definition.problems import NeedsInliningError, ProblemsError
from afterglow.graph import Builder, Function, Value
from afterglow.ops.control import Loop
from afterglow.ops.fill import Fill
from afterglow.ops.growing import read_from_room, room_type
from afterglow.ops.movement import Concat
from afterglow.ops.overwrite import Overwrite
from afterglow.support.errors import AfterglowError
from afterglow.types import TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import dims_of, inner_dim, is_ranged, largest, ranged

_Place = Callable[[Iterator[Value]], Imported]
"""Takes what the loop returns for one result of the rest, and says what that is."""


def run_rest(n: NodeContext) -> list[Imported | None]:
    """What the rest of a body returns; its operands are the values that grew, here or elsewhere."""
    try:
        return _run_once(n)
    except (NeedsInliningError, NeedsValuesError):
        raise
    except AfterglowError as problem:  # an op that takes no ranged extents, for instance
        first = problem.problems[0].error if isinstance(problem, ProblemsError) else problem
        raise NeedsInliningError(f"data tell how long a value is: {first.what}") from None


def _run_once(n: NodeContext) -> list[Imported | None]:
    operands = n.operands[2:]
    grown = [operand for operand in operands if isinstance(operand, GrownTensor)]
    if not grown:
        return n.inline("body", operands)
    lengths: dict[Value, int] = {}
    bounds: dict[int, int] = {}
    given = [_type_of(n, each, lengths, bounds) for each in operands]
    body = n.body_with_lists("body", given)
    places = _return_all(n, body, operands, bounds)
    rooms = [_room(n, body.subgraph.function, index, each) for index, each in enumerate(operands)]
    returned = [output.value.type for output in body.subgraph.function.outputs]
    _become_iteration(body.subgraph.function, len(lengths))
    fillers = [n.emit(Fill(type.shape, 0.0, type.dtype)) for type in returned]
    carried = (*lengths, *fillers)
    once, always = n.constant(np.array(1)), n.constant(np.array(True))
    op = Loop(body.subgraph, len(carried), 0, tuple(lengths.values()))
    dims = set(dims_of(*lengths.values()))
    if any(dims.intersection(dims_of(*type.shape)) for type in returned):
        raise NeedsInliningError("several extents of a value that is returned depend on data")
    results = n.emit_all(op, once, always, *carried, *rooms, *body.captured)
    found = iter(results[len(lengths) :])
    return [place(found) for place in places]


def _type_of(
    n: NodeContext, x: Imported | None, lengths: dict[Value, int], bounds: dict[int, int]
) -> TensorType:
    """The type of an operand in the rest; equal counts of rows are one dimension.

    Of each dimension it is noted which extent it does not exceed.
    """
    if isinstance(x, Value):
        return x.type
    if not isinstance(x, GrownTensor):
        raise NeedsInliningError("a value that grew is read beside others")
    if x.count not in lengths:
        # with the function's name, as rests in each other may return the same value
        name = f"{n.builder.function.name}.{n.builder.name}.length{len(lengths)}"
        lengths[x.count] = ranged(inner_dim(name, largest(x.most)))
        bounds[lengths[x.count]] = x.most
    shape = [*x.rows.type.shape]
    shape[x.axis] = lengths[x.count] + (0 if x.base is None else x.base.type.shape[x.axis])
    return x.rows.type.with_shape(shape)


def _room(n: NodeContext, function: Function, index: int, x: Imported | None) -> Value:
    """A value with all rows that may count, of which the rest reads as many as do."""
    if isinstance(x, Value):
        return x
    assert isinstance(x, GrownTensor)
    room = x.rows if x.base is None else n.emit(Concat(x.axis), x.base, x.rows)
    if is_ranged(room.type.shape[x.axis]):
        room = _in_room(n.builder.function, room, x.axis)
    past = function.inputs[index]
    taken = function.input(past.name, room.type)
    function.inputs.remove(taken)
    function.inputs[index] = taken
    read_from_room(function, past, taken)
    return room


def _become_iteration(function: Function, lengths: int) -> None:
    """Let a function be the body of a loop that carries lengths, and what it returns."""
    given, outputs = [*function.inputs], [*function.outputs]
    iteration = function.input("iteration", TensorType(i64, ()))
    told = [function.input("length", TensorType(i64, ())) for _ in range(lengths)]
    carried = [function.input("before", output.value.type) for output in outputs]
    function.inputs, function.outputs = [iteration, *told, *carried, *given], []
    function.output("\0goes_on", Builder(function).constant(np.array(True), "goes_on"))
    for place, length in enumerate(told):
        function.output(f"\0length{place}", length)
    function.outputs.extend(outputs)


def _return_all(
    n: NodeContext,
    body: ImportedBody,
    operands: Sequence[Imported | None],
    bounds: Mapping[int, int],
) -> list[_Place]:
    """Have the rest return everything as tensors whose types do not depend on its lengths."""
    function = body.subgraph.function
    results = results_of(body)
    function.outputs = []
    outer: dict[Value, GrownTensor] = {
        taken: given
        for taken, given in zip(function.inputs, operands, strict=False)
        if isinstance(given, GrownTensor)
    }
    dims = set(dims_of(*bounds))
    places = []
    for place, result in enumerate(results):
        if isinstance(result, RowList):
            places.append(_return_rows(body, place))
        elif isinstance(result, GrownTensor):
            places.append(_return_grown(n, body, result, outer, bounds))
        elif isinstance(result, Value) and not dims.intersection(dims_of(*result.type.shape)):
            _output(function, result)
            places.append(next)
        else:
            places.append(_return_longer(n, function, result, outer, bounds))
    return places


def _output(function: Function, value: Value) -> None:
    function.output(f"\0result{len(function.outputs)}", value)


def _return_rows(body: ImportedBody, place: int) -> _Place:
    """What the rest appends to a list."""
    rows = BodyRows(body, place)
    base, type = rows.base, rows.type
    if base is None or base.base is None:
        raise NeedsInliningError("a list is returned in another place")
    if type is None:
        return lambda _: base
    rows.output(type, flags=True)
    return lambda found: extended(base, next(found), next(found), is_before=rows.is_before)


def _return_grown(
    n: NodeContext,
    body: ImportedBody,
    x: GrownTensor,
    outer: dict[Value, GrownTensor],
    bounds: Mapping[int, int],
) -> _Place:
    """A value that grew in the rest, perhaps out of one that had grown before."""
    function = body.subgraph.function
    base = None if x.base is None or x.base in outer else body.outer(x.base)
    before = outer.get(x.base) if x.base is not None else None
    if base is None and before is None:
        x = without_base(function, x)
    rows, bound = x.rows, _bound_outside(x.most, bounds)
    if set(dims_of(*bounds)).intersection(dims_of(rows.type.shape[x.axis])):
        rows = _in_room(function, rows, x.axis)
    _output(function, rows)
    _output(function, x.count)

    def placed(found: Iterator[Value]) -> Imported:
        more = GrownTensor(base, x.axis, next(found), next(found), bound)
        return more if before is None else concat_parts(n, x.axis, (before, more))

    return placed


def _return_longer(
    n: NodeContext,
    function: Function,
    x: Imported,
    outer: dict[Value, GrownTensor],
    bounds: Mapping[int, int],
) -> _Place:
    """A value that had grown before, as it is or with more rows behind it."""
    if isinstance(x, Value) and x in outer:
        same = outer[x]
        return lambda _: same
    if not isinstance(x, Value):
        raise NeedsInliningError("a value that grew by as much as only data tell is returned")
    node = x.producer
    if node is None or not isinstance(node.op, Concat) or node.given[0] not in outer:
        return _return_whole(function, x, bounds)
    before, axis, others = outer[node.given[0]], node.op.axis, node.given[1:]
    if axis != before.axis or any(dims_of(*other.type.shape) for other in others):
        return _return_whole(function, x, bounds)
    for other in others:
        _output(function, other)
    return lambda found: concat_parts(n, axis, (before, *(next(found) for _ in others)))


def _bound_outside(extent: int, bounds: Mapping[int, int]) -> int | None:
    """What an extent does not exceed that may depend on lengths; None if that is not known."""
    dims = set(dims_of(*bounds))
    for length, bound in (0, 0), *bounds.items():
        rest = extent - length
        if not dims.intersection(dims_of(rest)):
            return rest + bound
    return None


def _return_whole(function: Function, x: Value, bounds: Mapping[int, int]) -> _Place:
    """A value of which one extent depends on the lengths, in room for the largest."""
    shape, dims = enumerate(x.type.shape), set(dims_of(*bounds))
    axes = [axis for axis, extent in shape if dims.intersection(dims_of(extent))]
    if len(axes) != 1:
        raise NeedsInliningError("several extents of a value that is returned depend on data")
    (axis,) = axes
    _output(function, _in_room(function, x, axis))
    _output(function, extent_value(function, x.type.shape[axis]))
    bound = _bound_outside(x.type.shape[axis], bounds)
    return lambda found: GrownTensor(None, axis, next(found), next(found), bound)


def _in_room(function: Function, x: Value, axis: int) -> Value:
    """A value at the beginning of memory with room for the largest extent along an axis."""
    b, room = Builder(function), room_type(x.type, axis)
    return b.emit(Overwrite((0,) * room.rank), b.emit(Fill(room.shape, 0.0, room.dtype)), x)
