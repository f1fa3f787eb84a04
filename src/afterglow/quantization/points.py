"""The storage points of a function: activations that conversion keeps as integers.

Convolutions and matrix products with constant weights compute in integers, so what they read is
stored as integers. From there the islands grow backwards: what a pool, a concatenation, a sum or
a move of such a value reads is stored as integers, too, for as long as it is computed from other
integers. All else stays in floats, and so does what logarithms read, and what is computed of
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

from afterglow.graph import Constant, Function, Node, Op, Value
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.attention import Attention
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add
from afterglow.ops.image import Resize
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Reshape, Slice, Transpose
from afterglow.ops.normalization import LayerNorm, RMSNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMean
from afterglow.ops.shuffle import Shuffle
from afterglow.ops.softmax import Softmax
from afterglow.quantization.logarithms import before_logarithms
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import f32

SAME_NUMBERS = (Reshape, Transpose, Slice, Shuffle, MaxPool)
"""Ops whose results hold nothing but elements of their first operand."""
ISLAND_OPS = (*SAME_NUMBERS, AvgPool, ReduceMean, Resize, Concat)
"""Ops that read integers if what they compute is stored so: memory decides how long they take."""
INTEGER_ONLY_OPS: dict[type[Op], int] = {Attention: 3, LayerNorm: 1, RMSNorm: 1, Softmax: 1}
"""Ops that read integers only where no floats are wanted, and how many of their operands are."""


@dataclass
class Points:
    """Storage points in the order of computation, each with the uses that read integers."""

    readers: dict[Value, list[tuple[Node, int]]] = field(default_factory=dict)
    outputs: set[Value] = field(default_factory=set)
    """Those that the function returns as what their integers stand for."""

    def parameters_from(self, value: Value) -> Value:
        """The point whose observation gives the scale of a point.

        A value that only moves has the scale of what it is moved from. What nothing but a
        concatenation reads has the scale of the result, so that bytes are joined as they are.
        """
        while (source := self._moved_from(value)) is not None:
            value = source
        joined = self._joined_to(value)
        return value if joined is None else self.parameters_from(joined)

    def _moved_from(self, value: Value) -> Value | None:
        node = value.producer
        if node is None or not _has_same_range(node.op):
            return None
        source = node.operands[0]
        return source if source in self.readers else None

    def _joined_to(self, value: Value) -> Value | None:
        """The concatenation that a point, or what is moved from it, is part of, if it shares."""
        nested = value.producer is not None and isinstance(value.producer.op, Concat)
        readers = [node for node, _ in self.readers[value]]
        if len(readers) > 1 and not nested:
            return None
        for node in readers:
            if node.results[0] in self.readers:
                if isinstance(node.op, Concat):
                    return node.result
                if _has_same_range(node.op):
                    return self._joined_to(node.result)
        return None


def _has_same_range(op: Op) -> bool:
    """Whether results lie within the range of the first operand: both then have one scale."""
    return isinstance(op, SAME_NUMBERS) or (isinstance(op, Resize) and op.is_convex)


def is_anchor(node: Node) -> bool:
    """Whether a node can multiply integers: a convolution or product with constant f32 weights."""
    match node:
        case Node(Conv(), [Value() as x, Constant() as weight, *_]):
            pass
        case Node(MatMul(), [Value() as x, Constant() as weight]) if weight.type.rank == 2:
            pass
        case _:
            return False
    return _is_activation(x) and weight.type.dtype is f32 and weight.type.size > 0


def find_points(
    function: Function,
    keep: Callable[[Node], bool] = lambda node: False,
    *,
    integer_only: bool = False,
) -> Points:
    """The points of a function; anchors that `keep` holds of stay in floats.

    So do those whose results logarithms read. If `integer_only`, there are more points: all that
    is not computed in integers from sums of integers is a function of integers, and so are outputs
    that are no sums.
    """
    exact = before_logarithms(function)
    anchors = [n for n in function.nodes if is_anchor(n) and n not in exact and not keep(n)]
    walk = _Walk(function, anchors, exact, integer_only=integer_only)
    walk.run()
    ordered = sorted(walk.found.readers, key=lambda value: walk.place(value))
    return Points({value: walk.found.readers[value] for value in ordered}, walk.found.outputs)


class _Walk:
    """Finds the points of a function, from its anchors backwards."""

    def __init__(
        self, function: Function, anchors: list[Node], exact: set[Node], *, integer_only: bool
    ) -> None:
        self.integer_only = integer_only
        self.places = {node: place for place, node in enumerate(function.nodes)}
        self.anchors = {*anchors}
        self.exact = _with_followers(function, exact)
        self.returned = [output.value for output in function.outputs]
        self.found = Points()
        self.open: list[Value] = []

    def run(self) -> None:
        for anchor in self.places:
            if anchor in self.anchors:
                self._read(anchor, 0)
        if self.integer_only and self.anchors:
            self._return()
        while self.open:
            self._grow(self.open.pop())

    def place(self, value: Value) -> int:
        """Where a value is computed; inputs come first."""
        return self.places.get(value.producer, -1) if value.producer is not None else -1

    def _return(self) -> None:
        """Outputs that would be computed in floats are returned as what integers stand for."""
        for value in self.returned:
            node = value.producer
            computed = node is not None and (node.op.elementwise or self._read_count(node) > 0)
            if computed and _is_activation(value) and not self._is_sum(node):
                self.found.outputs.add(value)
                if value not in self.found.readers:
                    self.found.readers[value] = []
                    self.open.append(value)

    def _read(self, node: Node, index: int) -> None:
        """A use reads integers."""
        value = node.operands[index]
        assert value is not None
        if value not in self.found.readers:
            self.found.readers[value] = []
            self.open.append(value)
        self.found.readers[value].append((node, index))

    def _grow(self, value: Value) -> None:
        """Find what the computation of a point reads that is to be stored as integers."""
        node = value.producer
        if node is None or node in self.anchors or node in self.exact:
            return
        count = self._read_count(node)
        if count and not self._is_part(node):
            for index in _activations(node)[:count]:
                self._read(node, index)
        elif node.op.elementwise:
            self._grow_elementwise(node)

    def _read_count(self, node: Node) -> int:
        """How many operands a node reads as integers, if it is no elementwise one."""
        if isinstance(node.op, ISLAND_OPS):
            return len(node.operands) if isinstance(node.op, Concat) else 1
        return INTEGER_ONLY_OPS.get(type(node.op), 0) if self.integer_only else 0

    def _is_part(self, node: Node) -> bool:
        """Whether a node takes columns of a product, which then is computed in parts."""
        match node:
            case Node(Slice() as op, [Value(source) as x]) if self._is_sum(source):
                return self.integer_only and op.columns(x.type) is not None
        return False

    def _grow_elementwise(self, node: Node) -> None:
        """One operand, the last to be computed, is fused; others are stored."""
        shape = node.results[0].type.shape
        operands = [
            index
            for index in _activations(node)
            if self.integer_only or _operand(node, index).type.shape == shape
        ]
        if not operands:
            return
        last = max(operands, key=lambda index: self.place(_operand(node, index)))
        for index in operands:
            operand = _operand(node, index)
            if index == last and operand.use_count == 1 and self._is_fused(node, operand):
                self._grow(operand)
            elif self._is_of_integers(operand.producer):
                self._read(node, index)

    def _is_fused(self, node: Node, operand: Value) -> bool:
        """Whether a node may read what is not stored: of integers alone, sums and clipped sums."""
        if not self.integer_only or isinstance(node.op, (Relu, Clip)):
            return True
        return isinstance(node.op, Add) and self._is_sum(operand.producer)

    def _is_sum(self, node: Node | None) -> bool:
        """Whether a node is an anchor, or adds a constant to one."""
        match node:
            case Node(Add(), [Value(source), Constant()]):
                return source in self.anchors
        return node in self.anchors

    def _is_of_integers(self, node: Node | None) -> bool:
        """Whether a node computes from what is, or may be, stored as integers."""
        if node is None or node in self.exact:
            return False
        if node in self.anchors or node.op.elementwise or self._read_count(node):
            return True
        looked_up = isinstance(node.op, Gather) and isinstance(node.operands[0], Constant)
        return self.integer_only and looked_up


def _with_followers(function: Function, exact: set[Node]) -> set[Node]:
    """Nodes, and those that would read integers but compute from nothing but these."""
    found = {*exact}
    for node in function.nodes:
        if isinstance(node.op, ISLAND_OPS) or node.op.elementwise:
            read = [_operand(node, index).producer for index in _activations(node)]
            if read and all(producer in found for producer in read):
                found.add(node)
    return found


def _activations(node: Node) -> list[int]:
    """The operands that are activations."""
    return [i for i, operand in enumerate(node.operands) if operand and _is_activation(operand)]


def _operand(node: Node, index: int) -> Value:
    operand = node.operands[index]
    assert operand is not None
    return operand


def _is_activation(value: Value) -> bool:
    """Whether it holds f32 that are not known, and not undefined where a predicate says so."""
    is_defined = value.producer is None or value.producer.predicate is None
    return value.type.dtype is f32 and not isinstance(value, Constant) and is_defined
