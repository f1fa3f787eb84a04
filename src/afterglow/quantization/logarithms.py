"""What logarithms read: numbers whose relative error counts, however small they are.

Integers have one step for all numbers, so that small ones are stored with a large relative error.
A logarithm turns that into a large error of its own, as in the spectrograms of sounds.
"""

from __future__ import annotations

from afterglow.graph import Function, Node, Op, Value
from afterglow.ops.activation import Clip
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Abs, Add, Div, Max, Min, Mul, Neg, Sub
from afterglow.ops.functions import Log, Sqrt
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Movement
from afterglow.ops.power import Pow
from afterglow.ops.reduction import Reduction

_ARITHMETIC: tuple[type[Op], ...] = (Abs, Add, Div, Max, Min, Mul, Neg, Sub, Pow, Sqrt)
_KEEPING = (*_ARITHMETIC, Movement, Clip, Conv, MatMul, Reduction)
"""Ops whose results are as exact as what they read; rectifiers and other activations are not."""


def before_logarithms(function: Function) -> set[Node]:
    """The nodes whose errors logarithms would show: those without an activation in between."""
    found: set[Node] = set()
    open_: list[Value | None] = []
    for node in function.nodes:
        if isinstance(node.op, Log):
            open_.extend(node.operands)
    while open_:
        value = open_.pop()
        producer = None if value is None else value.producer
        if producer is not None and producer not in found and isinstance(producer.op, _KEEPING):
            found.add(producer)
            open_.extend(producer.operands)
    return found
