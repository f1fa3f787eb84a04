"""Chains of nodes that compute each number from one quantized number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from afterglow.graph import Constant, Node, Op, Value
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.types import Array, DType

MOST_NODES = 32
"""Nodes that a chain may have; more are no activation functions."""


class Chain:
    """Nodes that compute a value from quantized numbers, each from the one at the same place."""

    def __init__(self, numbers: Mapping[DType, Array]) -> None:
        self.numbers = numbers
        self.ops: list[Op] = []
        self.known: dict[Value, Array] = {}
        self.sources: list[Value] = []

    @staticmethod
    def of(value: Value, numbers: Mapping[DType, Array]) -> Chain | None:
        """What computes a value, if it is a function of one value of the types of some numbers."""
        chain = Chain(numbers)
        if not chain._evaluate(value) or not chain.sources:
            return None
        return chain if chain.source.type.shape == value.type.shape else None

    @property
    def source(self) -> Value:
        """The quantized numbers."""
        return self.sources[0]

    @property
    def result(self) -> Array:
        """What the value is for each of the numbers."""
        *_, result = self.known.values()
        return result

    def _evaluate(self, value: Value) -> bool:
        """Find what a value is for each number; whether that can be said."""
        if value in self.known:
            return True
        if isinstance(value, Constant):
            if value.type.size != 1:
                return False
            self.known[value] = value.data.reshape(())
            return True
        node = value.producer
        if node is None or not _is_elementwise(node) or len(self.ops) >= MOST_NODES:
            return False
        if isinstance(node.op, DequantizeLinear) and not self._begin(node.operands[0]):
            return False
        if not all(operand is None or self._evaluate(operand) for operand in node.operands):
            return False
        operands = [None if operand is None else self.known[operand] for operand in node.operands]
        with np.errstate(all="ignore"):
            result = node.op.evaluate(*operands)
        assert isinstance(result, np.ndarray)
        self.ops.append(node.op)
        self.known[value] = result
        return True

    def _begin(self, stored: Value | None) -> bool:
        """Take the numbers for what is dequantized, if it is of their type and the only one."""
        if stored is None or isinstance(stored, Constant):
            return False
        if not self.sources and stored.type.dtype in self.numbers:
            self.sources.append(stored)
            self.known[stored] = self.numbers[stored.type.dtype]
        return self.sources[:1] == [stored]


def _is_elementwise(node: Node) -> bool:
    quantizes = isinstance(node.op, (QuantizeLinear, DequantizeLinear))
    single = len(node.results) == 1 and node.predicate is None
    return single and (quantizes or node.op.elementwise) and node.op.pure
