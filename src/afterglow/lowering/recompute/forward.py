"""The forward pass of a training step: what leads to its outputs, and what the rest of it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from afterglow.graph import Function, Node, Value
from afterglow.graph.function import subgraphs_of
from afterglow.graph.order import in_order, producers

Cost: TypeAlias = Callable[[Node], float]
"""An estimate of how long a node runs."""

CHEAP_WORK = 48
"""Operations for each element of a result that cost less than to fetch it from memory."""
REDUCTION = 4
"""A result this much smaller than an operand is kept rather than computed again."""
TINY = 1000
"""A value of less than this part of all that is read later is kept."""


class Forward:
    """The nodes that lead to the outputs of a function; the others are its backward pass."""

    def __init__(self, function: Function) -> None:
        self.function = function
        ends = (output.value.producer for output in function.outputs)
        members = {*in_order(ends, producers)}
        self.nodes = [node for node in function.nodes if node in members]
        self.position = {node: index for index, node in enumerate(self.nodes)}
        self.backward = [node for node in function.nodes if node not in members]
        read = dict.fromkeys(value for node in self.backward for value in node.inputs())
        self.read_later = [value for value in read if self.has(value)]
        """Results of the forward pass that the backward pass reads."""
        self.tiny = sum(value.type.nbytes for value in self.read_later) // TINY
        """Values of no more bytes do not count."""
        self.light = {node for node in self.nodes if is_light(node, self.tiny)}
        """The nodes that cost nearly nothing to run again."""

    def has(self, value: Value | None) -> bool:
        """Whether a value is a result of the forward pass."""
        return value is not None and value.producer in self.position

    def readers(self, value: Value) -> list[int]:
        """The positions of the nodes of the forward pass that read a value."""
        return [self.position[user] for user in value.users if user in self.position]

    def results(self) -> Iterable[Value]:
        """All results of the forward pass, in order."""
        return (result for node in self.nodes for result in node.results)


def is_light(node: Node, tiny: int) -> bool:
    """Whether a node makes much, with little work, of little more than that."""
    result = node.results[0].type
    if result.nbytes <= tiny or subgraphs_of(node.op) or len(node.results) > 1:
        return False
    largest = max((value.type.nbytes for value in node.given), default=0)
    return not is_heavy(node) and largest <= REDUCTION * result.nbytes


def is_heavy(node: Node) -> bool:
    """Whether a node does much work for each element of its result."""
    result = node.results[0].type
    operands = [None if value is None else value.type for value in node.operands]
    return node.op.work(result, operands) > CHEAP_WORK * result.size
