"""Loops, with the operands and attributes of ONNX's Loop.

A body becomes a function of its own where that can be: where its results have the same types each
time. Otherwise it is imported in place, once an iteration, and then the condition and the number of
iterations must be known when importing. If they are not, or there are many iterations, the host
drives the body while the model runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

import numpy as np

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.common.branches import scalar
from afterglow.frontends.common.growing_loops import (
    CHANGED,
    LoopGrowth,
    Told,
    first_steps,
    return_grown,
    tell_lengths,
)
from afterglow.frontends.common.list_results import LoopLists
from afterglow.frontends.common.lists import compact_rows, settled
from afterglow.frontends.common.rest import run_rest
from afterglow.frontends.definition.body_history import BodyHistory
from afterglow.frontends.definition.context import (
    Imported,
    NodeContext,
    RowList,
    StaticSequence,
)
from afterglow.frontends.definition.dialect import Results
from afterglow.frontends.definition.driven import drive
from afterglow.frontends.definition.host_loops import (
    HOST_RUNS,
    UNLIMITED,
    no_parts,
    run_loop,
)
from afterglow.frontends.definition.model import CHUNK, CUT_AXES, REST, is_rows_name
from afterglow.frontends.definition.problems import (
    ChangesTypesError,
    GrowsError,
    NeedsInliningError,
    ProblemsError,
)
from afterglow.frontends.definition.symbolic import whole
from afterglow.graph import Builder, Constant, Function, Subgraph, Value
from afterglow.ops.control import Loop, Scan
from afterglow.ops.elementwise import Add
from afterglow.ops.indexing import Iota, ScatterND
from afterglow.ops.linear_forms import Unknown
from afterglow.ops.loop_bounds import Carried, LoopFacts, deciding_values, most_trips, runs_to_limit
from afterglow.ops.movement import Concat, Expand, Reshape
from afterglow.support.errors import AfterglowError, ModelError, UnsupportedError
from afterglow.types import TensorType
from afterglow.types.dtype import i64, string
from afterglow.types.extent import larger_extent, largest

MOST_UNROLLED = 2048
"""Nodes into which a loop is unrolled, at most: if it takes more, the host drives it."""

MOST_INLINED = 256
"""Nodes into which a loop with growing values is unrolled rather than made an op, at most."""

MOST_ROW_BYTES = 2**26
"""What a loop that ends when it likes may stack at most: if it is more, the host drives it."""

MOST_NUMBERED = 2**17
"""Iterations whose numbers are a tensor; more are counted when the loop runs, if they can be."""

_TOO_MANY = "the loop unrolls into too many nodes"


def loop(n: NodeContext) -> Results:
    """An op with the body as a function if it can be; else the body, over and over."""
    if n.has(REST):
        return run_rest(n)
    limit, condition = n.get(0), n.get(1)
    limit = n.constant(np.array(UNLIMITED)) if limit is None else scalar(n, limit)
    condition = n.constant(np.array(True)) if condition is None else scalar(n, condition)
    carried = n.operands[2:]
    if n.is_driven:
        return drive(n, run_loop, [limit, condition, *carried])
    if n.has(CHUNK) and not n.graph.session.is_speculative:
        try:
            return _imported_loop(n, limit, condition, carried)
        except (NeedsInliningError, NeedsValuesError, ProblemsError):
            n.graph.session.is_speculative = True
            n.graph.session.histories.clear()
    return _imported_loop(n, limit, condition, carried)


def _imported_loop(
    n: NodeContext, limit: Value, condition: Value, carried: Sequence[Imported | None]
) -> Sequence[Imported | None]:
    """What a loop returns as an op, or else unrolled."""
    body = _history(n)
    if None not in carried and body.may_be_function:
        try:
            return _with_lengths(n, _loop_as_function(n, limit, condition, carried), len(carried))
        except NeedsInliningError as error:
            n.graph.session.refused[id(n.proto)] = error.what
            body.refuse(always=isinstance(error, ChangesTypesError))
    try:
        return _with_lengths(n, _loop_in_place(n, limit, condition, carried), len(carried))
    except NeedsInliningError as error:
        raise error if body.may_be_function else ChangesTypesError(error.what) from None


def _history(n: NodeContext) -> BodyHistory:
    """What earlier imports of a loop's body have shown."""
    return n.graph.session.history(n.graph_attribute("body"))


def _with_lengths(
    n: NodeContext, results: Sequence[Imported | None], carried: int
) -> Sequence[Imported | None]:
    """Results with the lengths of carried values behind them, which are known if not told yet."""
    before = len(n.graph_attribute("body").output)
    axes = n.integers(CUT_AXES, ())
    if len(results) > before:
        return results
    if not axes:
        return results if n.graph.frame.places else [settled(n, value) for value in results]
    pairs = [_with_length(n, place, results[place], axis) for place, axis in enumerate(axes)]
    values, lengths = ([pair[side] for pair in pairs] for side in (0, 1))
    return [*values, *results[carried:], *[None] * (before - len(results)), *lengths]


def _with_length(
    n: NodeContext, place: int, value: Imported | None, axis: int = 0
) -> tuple[Imported | None, Value | None]:
    """A carried value as one that is read behind the loop, and its length; of a list its rows."""
    if isinstance(value, RowList):
        is_cut = place < len(n.proto.output) and is_rows_name(n.proto.output[place])
        if is_cut:
            return compact_rows(n, value) or (StaticSequence(), None)
        return value if n.graph.frame.places else settled(n, value), None
    if not isinstance(value, Value) or not -value.type.rank <= axis < value.type.rank:
        return value, None
    return value, n.integers_of((value.type.shape[axis],), (1,))


def _loop_as_function(
    n: NodeContext, limit: Value, condition: Value, carried: Sequence[Imported | None]
) -> list[Imported | None]:
    """An op with the body as a function, which may make carried values longer each time."""
    history = _history(n)
    if history.growth is not None:
        try:
            return _growing_loop(n, limit, condition, carried, history.growth)
        except NeedsInliningError:  # as they grow in another way in this place
            history.growth = None
            history.refuse(always=False)
    try:
        with n.graph.session.attempt():
            return _loop_as_op(n, limit, condition, LoopLists.of(n, carried))
    except GrowsError as error:
        if error.most == math.inf:
            raise ChangesTypesError(
                "values that it carries grow, and nothing bounds how often it runs"
            ) from None
        nodes = error.most * len(n.graph_attribute("body").node)
        if error.is_counted and not error.is_told_by_data and nodes <= MOST_INLINED:
            raise
        return _growing_loop(n, limit, condition, carried, error)


def _growing_loop(
    n: NodeContext,
    limit: Value,
    condition: Value,
    carried: Sequence[Imported | None],
    error: GrowsError,
) -> list[Imported | None]:
    """An op that makes carried values longer, of which some turn out not to grow alike."""
    history, types = _history(n), [value.type for value in carried if isinstance(value, Value)]
    is_new = error is not history.growth
    while True:
        growth = LoopGrowth.of(error.steps, types, int(error.most), n.builder.name)
        try:
            with n.graph.session.attempt():
                lists = LoopLists.of(n, carried)
                results = _loop_as_op(n, limit, condition, lists, growth, is_new=is_new)
            history.growth = error
            return results
        except GrowsError as other:  # in more groups than before, so that this ends
            error = other
        except NeedsInliningError:
            raise
        except AfterglowError as problem:  # an op that takes no ranged extents, for instance
            first = problem.problems[0].error if isinstance(problem, ProblemsError) else problem
            raise ChangesTypesError(f"values that it carries grow: {first.what}") from None


def _loop_as_op(
    n: NodeContext,
    limit: Value,
    condition: Value,
    lists: LoopLists,
    growth: LoopGrowth | None = None,
    *,
    is_new: bool = True,
) -> list[Imported | None]:
    carried: Sequence[Value] = lists.tensors
    types = [value.type for value in carried] if growth is None else growth.before
    goes_on = n.constant(np.array(True))  # as the body sees it: else it would not run
    imported = n.body_with_lists("body", (TensorType(i64, ()), goes_on, *lists.inputs(types)))
    body, captured, function = imported.subgraph, imported.captured, imported.subgraph.function
    told = return_grown(imported, lists.places)
    if growth is not None:
        tell_lengths(function, growth.steps, told)
    own = len(function.outputs) - 1 - len(carried)
    _check_count(len(function.outputs) - 1, len(carried))
    lists.append_outputs(imported)
    returned = _output_types(function)[1:]
    facts = _facts(n, function, limit, carried)
    _check_carried(n, types, facts, growth, told)
    if (
        growth is not None
        and not is_new
        and growth.most != growth.bounded(facts.trips, growth.steps, growth.first)
    ):
        raise NeedsInliningError("it runs more or less often than elsewhere")
    trips, stacks = None, len(returned) > len(carried)
    if growth is not None:
        growth.check_stacked(returned[len(carried) :])
        carried = growth.make_room(n, function, carried, told)
        facts = replace(_facts(n, function, limit, carried), trips=growth.most)
    n.graph.session.end_loop(facts)
    if _is_true(function.outputs[0].value) or _only_limit_ends(n, facts, limit):
        trips = _trips(n, limit, condition, must=stacks)
        if growth is None and trips is not None and (largest(trips) <= MOST_NUMBERED or stacks):
            return lists.placed(n, _counted(n, body, trips, carried, captured), own)
    if own and trips is None:
        ends = (condition, *deciding_values(facts))
        if all(map(n.graph.known.is_known, ends)) or not n.wants(lists.count + own):
            raise NeedsInliningError("the number of iterations depends on what they compute")
    is_open = growth is not None and (trips is None or bool(growth.lengths))
    first = _with_rows(n, function, facts.trips, limit, carried) if stacks or is_open else carried
    extents = (0, ()) if growth is None else (growth.iteration, growth.lengths)
    results = n.emit_all(Loop(body, len(first), *extents), limit, condition, *first, *captured)
    if growth is None:
        return lists.placed(n, results, own, is_counted=trips is None)
    return _grown_results(n, results, own, lists, growth, trips)


def _grown_results(
    n: NodeContext,
    results: Sequence[Value],
    own: int,
    lists: LoopLists,
    growth: LoopGrowth,
    trips: int | None,
) -> list[Imported | None]:
    """What stands behind a loop for what it returns: without rooms, or with lengths in them."""
    groups = len(growth.lengths)
    ends, found = results[:groups], tuple(results[groups:])
    if trips is not None:
        found = growth.results(n, found, trips)
        if not groups:
            return lists.placed(n, found, own)
    counted = trips is None
    added = growth.added(n, ends, found[-1], is_counted=counted)
    placed = lists.placed(n, found, own, is_counted=counted)
    if not n.graph.frame.is_body:
        lengths = growth.lengths_behind(n, found, added, lists.places)
        return _with_lengths_of_lists(n, placed, dict(zip(lists.places, lengths, strict=True)))
    grown = growth.grown(n, lists.tensors, found, added)
    for place, value in zip(lists.places, grown, strict=True):
        placed[place] = value
    return placed


def _with_lengths_of_lists(
    n: NodeContext, results: Sequence[Imported | None], lengths: Mapping[int, Value]
) -> list[Imported | None]:
    """Results with the lengths of carried values behind them; of tensors they are told."""
    found, ends = [*results], list[Value | None]()
    for place in range(len(n.graph_attribute("body").input) - 2):
        value, length = found[place], lengths.get(place)
        if isinstance(value, RowList):
            found[place], length = _with_length(n, place, value)
        ends.append(length)
    return [*found, *ends]


def _check_carried(
    n: NodeContext,
    types: Sequence[TensorType],
    facts: LoopFacts,
    growth: LoopGrowth | None,
    told: Mapping[int, Told],
) -> None:
    """Raise unless carried values keep their types, or grow as expected."""
    body = facts.body
    returned = _output_types(body)[1 : 1 + len(types)]
    if growth is not None:
        steps = growth.refined(returned, told)
    elif told or returned != list(types):
        steps = first_steps(types, returned, told)
    else:
        return
    if steps is not None:
        if not n.graph.session.data_lengths and any(step and step.is_whole for step in steps):
            raise ChangesTypesError(CHANGED)
        first = types if growth is None else growth.first
        most = LoopGrowth.bounded(facts.trips, steps, first)
        is_counted = _is_true(body.outputs[0].value)
        raise GrowsError(steps, most, is_counted=is_counted, is_told_by_data=bool(told))


def _output_types(function: Function) -> list[TensorType]:
    return [output.value.type for output in function.outputs]


def _most_trips(n: NodeContext, limit: Value) -> int | None:
    """How often a loop runs at most; None if its limit does not tell."""
    ranged = n.graph.known.symbols_of(limit)
    most = n.value_if_known(limit) if ranged is None else np.array(largest(whole(ranged.item())))
    return None if most is None or most == UNLIMITED else max(0, int(most))


def _facts(n: NodeContext, function: Function, limit: Value, carried: Sequence[Value]) -> LoopFacts:
    """What a loop tells about the integers in its body."""
    most = _most_trips(n, limit)
    iteration, *inside = function.inputs[: 1 + len(carried)]
    goes_on, *after = (output.value for output in function.outputs[: 1 + len(carried)])
    pairs = [Carried(*each) for each in zip(inside, carried, after, strict=True)]
    facts = LoopFacts(function, iteration, math.inf if most is None else most, pairs, goes_on)
    return replace(facts, trips=most_trips(n.graph.session.forms, facts, _outside(n)))


def _only_limit_ends(n: NodeContext, facts: LoopFacts, limit: Value) -> bool:
    """Whether what the body returns to go on is never false before its limit is reached."""
    trips = n.graph.known.symbols_of(limit)
    # of a number, the condition is known where it counts
    return trips is not None and runs_to_limit(
        n.graph.session.forms, facts, whole(trips.item()), _outside(n)
    )


def _outside(n: NodeContext) -> Callable[[Unknown], int | None]:
    """What an element is outside of a body, a number or an extent, if that is known."""

    def first(unknown: Unknown) -> int | None:
        elements = n.graph.known.elements(unknown[0])
        return None if elements is None else whole(elements.reshape(-1)[unknown[1]])

    return first


def _check_count(returned: int, carried: int) -> None:
    if returned < carried:
        raise ModelError(f"body returns {returned} values, but {carried} are carried")


def _is_true(value: Value) -> bool:
    return isinstance(value, Constant) and bool(value.data)


def _trips(n: NodeContext, limit: Value, condition: Value, *, must: bool) -> int | None:
    """The number of iterations of a loop that only its limit ends, if it is known."""
    read = n.value_of if must else n.value_if_known
    ranged = n.graph.known.symbols_of(limit)
    if ranged is not None and n.value_if_known(condition):
        return larger_extent(0, whole(ranged.item()))
    most, begins = read(limit), read(condition)
    if most is None or begins is None:
        return None
    if begins and most == UNLIMITED:
        raise ModelError("the loop never ends: it has no limit, and its condition always holds")
    return max(0, int(most)) if begins else 0


def _counted(
    n: NodeContext, body: Subgraph, trips: int, carried: Sequence[Value], captured: Sequence[Value]
) -> tuple[Value, ...]:
    """A loop with a fixed number of iterations scans their numbers."""
    function = body.function
    function.outputs = function.outputs[1:]
    iteration, *inputs = function.inputs
    function.inputs = [*inputs[: len(carried)], iteration, *inputs[len(carried) :]]
    numbers = n.emit(Iota((trips,), 0, i64))
    results = n.emit_all(Scan(body, trips, len(carried), 1), *carried, numbers, *captured)
    return (*results, n.integers_of((trips,), (1,)))


def _with_rows(
    n: NodeContext, body: Function, trips: float, limit: Value, carried: Sequence[Value]
) -> tuple[Value, ...]:
    """A loop that ends when it likes carries all rows that there may be, and their number."""
    parts = _output_types(body)[1 + len(carried) :]
    most = max(0, int(n.value_of(limit) if trips == math.inf else trips))
    if most * sum(type.nbytes for type in parts) > MOST_ROW_BYTES or any(
        type.dtype is string for type in parts
    ):
        raise NeedsInliningError("there may be too many rows to stack")
    _write_rows(body, len(carried), most)
    zeros = [n.constant(np.zeros((), type.dtype.numpy)) for type in parts]
    rows = [
        n.emit(Expand((most, *type.shape)), zero) for type, zero in zip(parts, zeros, strict=True)
    ]
    return (*carried, *rows, n.constant(np.zeros(1, np.int64)))


def _write_rows(function: Function, carried: int, most: int) -> None:
    """Let a body carry rows, into which it writes what it returns to be stacked, and count them."""
    b, iteration = Builder(function), function.inputs[0]
    before, captured = function.inputs[: 1 + carried], function.inputs[1 + carried :]
    kept, stacked = function.outputs[: 1 + carried], function.outputs[1 + carried :]
    function.inputs, function.outputs = [*before], [*kept]
    place = b.emit(Reshape((1, 1)), iteration)
    for output in stacked:
        type = output.value.type
        rows = function.input(output.name, type.with_shape((most, *type.shape)))
        row = b.emit(Reshape((1, *type.shape)), output.value)
        function.output(output.name, b.emit(ScatterND(), rows, place, row))
    function.input("count", TensorType(i64, (1,)))
    one = b.constant(np.ones(1, np.int64), "one")
    function.output("\0count", b.emit(Add(), b.emit(Reshape((1,)), iteration), one))
    function.inputs.extend(captured)


def _loop_in_place(
    n: NodeContext, limit: Value, condition: Value, carried: Sequence[Imported | None]
) -> list[Imported | None]:
    """Import the body once an iteration, as long as the condition is known to hold."""
    most, goes_on = int(n.value_of(limit)), n.constant(np.array(True))
    before, history = n.graph.session.expanded, _history(n)
    if not history.may_be_unrolled(most):
        raise NeedsInliningError(_TOO_MANY)
    parts: list[list[Value]] = []
    for iteration in count():
        if iteration >= most or not n.value_of(condition):
            break
        if max(iteration, n.graph.session.expanded - before) > MOST_UNROLLED:
            history.refuse_unrolled(most)
            raise NeedsInliningError(_TOO_MANY)
        number = n.constant(np.array(iteration))
        prefix = f"{n.builder.name}.{iteration}."
        results = n.inline("body", (number, goes_on, *carried), prefix)
        _check_count(len(results) - 1, len(carried))
        first, *rest = results
        condition = scalar(n, _tensor(first))
        carried = rest[: len(carried)]
        parts.append([_tensor(value) for value in rest[len(carried) :]])
    number = n.constant(np.array([len(parts)]))
    if not parts:
        declared = n.graph_attribute("body").output[1 + len(carried) :]
        return [*carried, *(n.constant(no_parts(info)) for info in declared), number]
    stacked = [_stack(n, list(column)) for column in zip(*parts, strict=True)]
    return [*carried, *stacked, number]


def _tensor(value: Imported | None) -> Value:
    if not isinstance(value, Value):
        raise UnsupportedError("the condition and what is stacked must be tensors")
    return value


def _stack(n: NodeContext, parts: Sequence[Value]) -> Value:
    rows = [n.emit(Reshape((1, *part.type.shape)), part) for part in parts]
    return n.emit(Concat(0), *rows)


HOST_RUNS[loop] = run_loop
