"""The rest of a body, run once, with lengths that data tell as dimensions (`definition/rest.py`).

It is a loop of one iteration, which carries the lengths as they are, and all that the rest returns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from afterglow.frontends.common.grown import concat_parts, results_of
from afterglow.frontends.common.list_results import BodyRows
from afterglow.frontends.common.lists import extended
from afterglow.frontends.definition.context import (
    GrownTensor,
    Imported,
    ImportedBody,
    NodeContext,
    RowList,
)
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.graph import Builder, Function, Value
from afterglow.ops.control import Loop
from afterglow.ops.fill import Fill
from afterglow.ops.growing import read_from_room
from afterglow.ops.movement import Concat
from afterglow.types import TensorType
from afterglow.types.dtype import i64
from afterglow.types.extent import Dim, dims_of, ranged

_Place = Callable[[Iterator[Value]], Imported]
"""Takes what the loop returns for one result of the rest, and says what that is."""


def run_rest(n: NodeContext) -> list[Imported | None]:
    """What the rest of a body returns; its operands are the values that grew, here or elsewhere."""
    operands = n.operands[2:]
    grown = [operand for operand in operands if isinstance(operand, GrownTensor)]
    if not grown:
        return n.inline("body", operands)
    lengths: dict[Value, int] = {}
    given = [_type_of(n, each, lengths) for each in operands]
    body = n.body_with_lists("body", given)
    places = _return_all(n, body, operands, [*lengths.values()])
    rooms = [_room(n, body.subgraph.function, index, each) for index, each in enumerate(operands)]
    returned = [output.value.type for output in body.subgraph.function.outputs]
    _become_iteration(body.subgraph.function, len(lengths))
    fillers = [n.emit(Fill(type.shape, 0.0, type.dtype)) for type in returned]
    carried = (*lengths, *fillers)
    once, always = n.constant(np.array(1)), n.constant(np.array(True))
    op = Loop(body.subgraph, len(carried), 0, tuple(lengths.values()))
    results = n.emit_all(op, once, always, *carried, *rooms, *body.captured)
    found = iter(results[len(lengths) :])
    return [place(found) for place in places]


def _type_of(n: NodeContext, x: Imported | None, lengths: dict[Value, int]) -> TensorType:
    """The type of an operand in the rest; equal counts of rows are one dimension."""
    if isinstance(x, Value):
        return x.type
    if not isinstance(x, GrownTensor):
        raise NeedsInliningError("a value that grew is read beside others")
    if x.count not in lengths:
        name = f"{n.builder.name}.length{len(lengths)}"
        lengths[x.count] = ranged(Dim(name, 0, x.rows.type.shape[x.axis]))
    shape = [*x.rows.type.shape]
    shape[x.axis] = lengths[x.count] + (0 if x.base is None else x.base.type.shape[x.axis])
    return x.rows.type.with_shape(shape)


def _room(n: NodeContext, function: Function, index: int, x: Imported | None) -> Value:
    """A value with all rows that may count, of which the rest reads as many as do."""
    if isinstance(x, Value):
        return x
    assert isinstance(x, GrownTensor)
    room = x.rows if x.base is None else n.emit(Concat(x.axis), x.base, x.rows)
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
    n: NodeContext, body: ImportedBody, operands: Sequence[Imported | None], own: Sequence[int]
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
    dims = set(dims_of(*own))
    places = []
    for place, result in enumerate(results):
        if isinstance(result, RowList):
            places.append(_return_rows(body, place))
        elif isinstance(result, GrownTensor):
            places.append(_return_grown(n, body, result, outer))
        elif isinstance(result, Value) and not dims.intersection(dims_of(*result.type.shape)):
            _output(function, result)
            places.append(next)
        else:
            places.append(_return_longer(n, function, result, outer))
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
    n: NodeContext, body: ImportedBody, x: GrownTensor, outer: dict[Value, GrownTensor]
) -> _Place:
    """A value that grew in the rest, perhaps out of one that had grown before."""
    _output(body.subgraph.function, x.rows)
    _output(body.subgraph.function, x.count)
    base = None if x.base is None or x.base in outer else body.outer(x.base)
    before = outer.get(x.base) if x.base is not None else None
    if x.base is not None and base is None and before is None:
        raise NeedsInliningError("a value that grew is what the rest of its body computes")

    def placed(found: Iterator[Value]) -> Imported:
        more = GrownTensor(base, x.axis, next(found), next(found))
        return more if before is None else concat_parts(n, x.axis, (before, more))

    return placed


def _return_longer(
    n: NodeContext, function: Function, x: Imported, outer: dict[Value, GrownTensor]
) -> _Place:
    """A value that had grown before, as it is or with more rows behind it."""
    if isinstance(x, Value) and x in outer:
        same = outer[x]
        return lambda _: same
    node = x.producer if isinstance(x, Value) else None
    if node is None or not isinstance(node.op, Concat) or node.given[0] not in outer:
        raise NeedsInliningError("a value that grew by as much as only data tell is returned")
    before, axis, others = outer[node.given[0]], node.op.axis, node.given[1:]
    if axis != before.axis or any(dims_of(*other.type.shape) for other in others):
        raise NeedsInliningError("a value that grew by as much as only data tell is returned")
    for other in others:
        _output(function, other)
    return lambda found: concat_parts(n, axis, (before, *(next(found) for _ in others)))
