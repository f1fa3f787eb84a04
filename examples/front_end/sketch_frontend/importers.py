"""The ops of sketches, each with the function that imports it."""

from __future__ import annotations

from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.definition.dialect import Dialect
from afterglow.graph import Value
from afterglow.ops.activation import Relu
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.softmax import Softmax
from afterglow.support.errors import ModelError

SKETCH = Dialect("sketch")


@SKETCH.op("dense")
def dense(n: NodeContext) -> Value:
    """Rows times a matrix of weights."""
    rows, weights = n[0], n[1]
    if weights.type.rank != 2:
        raise ModelError(f"the weights must have 2 axes, they are {weights.type}")
    return n.emit(MatMul(), rows, weights)


@SKETCH.op("add")
def add(n: NodeContext) -> Value:
    """The sum; one of both may be broadcast."""
    return n.emit(Add(), n[0], n[1])


@SKETCH.op("relu")
def relu(n: NodeContext) -> Value:
    """Negative numbers become zero."""
    return n.emit(Relu(), n[0])


@SKETCH.op("softmax")
def softmax(n: NodeContext) -> Value:
    """Exponentials that sum to one along an axis, the last by default."""
    return n.emit(Softmax(n.integer("axis", -1)), n[0])
