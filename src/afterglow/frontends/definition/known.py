"""Values that are known when importing: whatever follows from constants."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import field
from math import inf

from afterglow.frontends.base import NeedsValuesError
from afterglow.frontends.definition.problems import NeedsInliningError
from afterglow.frontends.definition.symbolic import elements_of, evaluate
from afterglow.graph import Constant, Function, Node, Op, Value, run_node
from afterglow.graph.function import subgraphs_of
from afterglow.graph.order import in_order
from afterglow.ops.control import Loop, Scan
from afterglow.support.errors import IndexRangeError, UnsupportedError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array
from afterglow.types.extent import UndecidedExtentError, undecided, walk_extents

MOST_COMPUTED_BYTES = 2**30
"""A value that takes more, with all on the way to it, is not computed when importing."""

MOST_STEPS = 100_000
"""Nor is one that takes more nodes to run, with those in bodies counted each time."""

EAGER_ELEMENTS = 4096
"""Results up to this size are computed at once where all operands are known: shape arithmetic."""

_VARYING = ""
"""In the place of an input's name: a value that is another one in each iteration of a loop."""

_VARIABLE = "\0variable"
"""In the place of an input's name: a value that something is differentiated by."""

_LOOPING = "\0looping"
"""In the place of an input's name: a loop that ends when it likes, which nobody foresees."""


@dataclass
class KnownValues:
    """Computes values from constants, across the bounds of bodies.

    `input_names` says what the model calls its inputs, `outer` which outer value an input of a body
    stands for, `variables` what something is differentiated by. `unchecked`, indices out of range
    become the nearest that are not.
    """

    input_names: dict[Value, str] = field(default_factory=dict)
    outer: dict[Value, Value] = field(default_factory=dict)
    variables: set[Value] = field(default_factory=set)
    unchecked: bool = False
    symbols: dict[Value, Array] = field(default_factory=dict)
    """Elements that are expressions over dimensions, as `symbolic` has them."""
    _inputs: dict[Node, frozenset[str]] = field(default_factory=dict)
    _computed: dict[Node | None, dict[Value, Array]] = field(default_factory=dict)

    def array(self, value: Value) -> Array:
        """The value; `NeedsValuesError` with the names of all inputs that it depends on."""
        value = self.outermost(value)
        names = self._names_behind(value) - {_VARIABLE}
        if _VARYING in names:
            raise NeedsInliningError("a shape depends on a value that changes in a loop")
        if _LOOPING in names:
            raise NeedsInliningError("a shape depends on how often a loop runs")
        if names:
            in_order = (name for name in self.input_names.values() if name in names)
            raise NeedsValuesError(tuple(in_order))
        return self._look_up(value, self._results_behind(value))

    def symbols_of(self, value: Value) -> Array | None:
        """The elements of a value that are expressions; None if it is another value."""
        return self.symbols.get(self.outermost(value))

    def elements(self, value: Value) -> Array | None:
        """The elements of a value as `symbolic` has them; None if they are not known that way."""
        value = self.outermost(value)
        return elements_of(value.data) if isinstance(value, Constant) else self.symbols.get(value)

    def expressions(self, node: Node) -> Array | None:
        """The elements of a node's result, if some of its operands are expressions; else None."""
        values = [self.outermost(value) for value in node.given]
        if len(node.results) > 1 or not any(value in self.symbols for value in values):
            return None
        if node.is_ranged or sum(value.type.size for value in values) > EAGER_ELEMENTS:
            return None
        operands = [self.elements(value) for value in values]
        given = [operand for operand in operands if operand is not None]
        try:
            return None if len(given) < len(node.operands) else evaluate(node, given)
        except UndecidedExtentError:
            return None  # it may be data, computed when the model runs

    def is_known(self, value: Value) -> bool:
        """Whether it follows from constants."""
        return not self._names_behind(self.outermost(value))

    def varies(self, value: Value) -> bool:
        """Whether it depends on a variable, so that it must not be taken for a constant."""
        return bool(self.variables) and _VARIABLE in self._names_behind(self.outermost(value))

    def varies_alone(self, value: Value) -> bool:
        """Whether it depends on variables, and on constants besides, but on no input."""
        names = self._names_behind(self.outermost(value)) - {_LOOPING}
        return self.varies(value) and names == {_VARIABLE}

    def _names_behind(self, value: Value) -> frozenset[str]:
        for node in self._nodes_behind(value, self._inputs):
            own = {_LOOPING} if isinstance(node.op, Loop) else ()
            self._inputs[node] = frozenset(own).union(*map(self._inputs_of, node.given))
        return self._inputs_of(value)

    def outermost(self, value: Value) -> Value:
        """What an input of a body stands for, if it is an outer value; else the value itself."""
        while value in self.outer:
            value = self.outer[value]
        return value

    def _inputs_of(self, value: Value) -> frozenset[str]:
        """The names of the inputs that a value depends on."""
        value = self.outermost(value)
        if isinstance(value, Constant):
            return frozenset()
        if value.producer is not None:
            names = self._inputs[value.producer]
            return names | {_VARIABLE} if value in self.variables else names
        return frozenset({self.input_names.get(value, _VARYING)})

    def _nodes_behind(self, value: Value, done: Container[Node | None]) -> list[Node]:
        """The nodes that a value takes, each after those that it reads, without those done."""

        def left(read: Iterable[Value]) -> list[Node | None]:
            producers = [v.producer for v in read]
            return [None if node in done else node for node in producers]

        return in_order(left([value]), lambda node: left(map(self.outermost, node.given)))

    def _results_behind(self, value: Value) -> dict[Value, Array]:
        """The results of all nodes that a value takes; those of its own are kept."""
        if value.producer in self._computed:
            return self._computed[value.producer]
        arrays: dict[Value, Array] = {}
        total = 0
        for node in self._nodes_behind(value, self._computed):
            total += sum(result.type.nbytes for result in node.results)
            if total > MOST_COMPUTED_BYTES:
                raise _takes_long(node)
            arrays.update(zip(node.results, self._run(node, arrays), strict=True))
        if value.producer is not None:
            own = {result: arrays[result] for result in value.producer.results}
            self._computed[value.producer] = own
        return arrays

    def _run(self, node: Node, arrays: dict[Value, Array]) -> tuple[Array, ...]:
        if steps(node.op) > MOST_STEPS:
            raise _takes_long(node)
        if node.is_ranged:
            raise undecided_value(node)
        operands = [None if v is None else self._look_up(v, arrays) for v in node.operands]
        return run_node(node, operands, unchecked=self.unchecked)

    def _look_up(self, value: Value, arrays: dict[Value, Array]) -> Array:
        value = self.outermost(value)
        if isinstance(value, Constant):
            return value.data
        return self._computed.get(value.producer, arrays)[value]


def _takes_long(node: Node) -> UnsupportedError:
    return UnsupportedError(f"a shape depends on {node.name!r}, which takes long to compute")


def undecided_value(node: Node) -> UndecidedExtentError:
    """The error about a value that must be known, but that only the extents of a run tell."""
    attributes = walk_extents(tuple(vars(node.op).values()))
    types = (v.type.shape for v in (*node.results, *node.given))
    found = (*attributes, *walk_extents(tuple(types)))
    return undecided(f"the value of {node.name!r}", *found)


def fold(node: Node, *, always: bool = False, unchecked: bool = False) -> tuple[Array, ...] | None:
    """The results of a node if all its operands are constants and, but for `always`, it is small.

    Otherwise None.
    """
    if not all(isinstance(v, Constant) for v in node.given) or node.is_ranged:
        return None
    types = [result.type for result in node.results]
    if not always:
        elements = sum(type.size for type in types) + sum(value.type.size for value in node.given)
        if elements > EAGER_ELEMENTS or node.op.dequantizes or _rounds(node):
            return None
    if not node.op.pure or subgraphs_of(node.op):
        return None
    operands = [v.data if isinstance(v, Constant) else None for v in node.operands]
    try:
        return run_node(node, operands, unchecked=unchecked)
    except IndexRangeError:
        if always:
            raise
        return None  # it may be in a branch that is never taken


def _rounds(node: Node) -> bool:
    """Whether it computes narrow floats, which backends may do in wider ones, without rounding."""
    return not node.op.moves_only and any(r.type.dtype.is_narrow_float for r in node.results)


def steps(op: Op) -> float:
    """How many nodes run when the op does."""
    times = inf if isinstance(op, Loop) else op.length if isinstance(op, Scan) else 1
    bodies = [subgraph.function for subgraph in subgraphs_of(op)]
    return 1 + (times * sum(map(_function_steps, bodies)) if bodies else 0)


def _function_steps(function: Function) -> float:
    return 1 + sum(steps(node.op) for node in function.nodes)
