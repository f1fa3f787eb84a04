"""Look up functions of one byte instead of computing them."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Op, Value
from afterglow.ops import activation
from afterglow.ops import elementwise as arithmetic
from afterglow.ops.conversion import Cast
from afterglow.ops.fixed_point import ENTRIES, ByteTable
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import STORED_TYPES
from afterglow.types import Array, DType
from afterglow.types.dtype import i8, u8

MOST_NODES = 32
"""Nodes that a table may stand for; more are no chain of activation functions."""

CHEAP: tuple[type[Op], ...] = (
    *(arithmetic.Add, arithmetic.Sub, arithmetic.Mul, arithmetic.Neg, arithmetic.Abs),
    *(arithmetic.Max, arithmetic.Min, Cast, DequantizeLinear),
    *(activation.Relu, activation.LeakyRelu, activation.PRelu, activation.Clip),
    *(activation.HardSigmoid, activation.HardSwish),
)
"""Ops that are computed about as fast as a table is read."""


@rewrite(QuantizeLinear)
def tabulate_functions(node: Node, b: Builder) -> Value | None:
    """quantize(f(dequantize(x)))  ->  byte_table(x),  f of any nodes, one of them not cheap."""
    chain = _Chain.before(node)
    if chain is None or all(isinstance(op, CHEAP) for op in chain.ops[:-1]):
        return None
    return chain.tabulated(b)


@rewrite(QuantizeLinear)
def tabulate_all(node: Node, b: Builder) -> Value | None:
    """quantize(f(dequantize(x)))  ->  byte_table(x),  f of any nodes, or none."""
    chain = _Chain.before(node)
    return None if chain is None else chain.tabulated(b)


class _Chain:
    """Nodes that compute bytes from other bytes, each from the one at the same place."""

    def __init__(self) -> None:
        self.source: Value | None = None
        self.ops: list[Op] = []
        self.known: dict[Value, Array] = {}

    @staticmethod
    def before(node: Node) -> _Chain | None:
        """What a node quantizes, if it is a function of one byte."""
        chain, result = _Chain(), node.results[0]
        is_stored = result.type.dtype in STORED_TYPES
        if not is_stored or not chain._evaluate(result) or chain.source is None:
            return None
        return chain if chain.source.type.shape == result.type.shape else None

    def tabulated(self, b: Builder) -> Value:
        """The table, applied to the source."""
        *_, result = self.known.values()
        numbers = tuple(int(number) for number in result.reshape(-1))
        assert self.source is not None
        return b.emit(ByteTable(numbers, DType.of(result.dtype)), self.source)

    def _evaluate(self, value: Value) -> bool:
        """Find what a value is for each byte; whether that can be said."""
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
        """Take all bytes for what is dequantized, if it holds bytes and is the only such value."""
        if stored is None or isinstance(stored, Constant) or stored.type.dtype not in (i8, u8):
            return False
        if self.source is None:
            self.source = stored
            self.known[stored] = np.arange(ENTRIES, dtype=np.uint8).view(stored.type.dtype.numpy)
        return self.source is stored


def _is_elementwise(node: Node) -> bool:
    quantizes = isinstance(node.op, (QuantizeLinear, DequantizeLinear))
    single = len(node.results) == 1 and node.predicate is None
    return single and (quantizes or node.op.elementwise) and node.op.pure


BYTE_TABLES = RewritePass("byte-tables", (tabulate_functions,))
ALL_BYTE_TABLES = RewritePass("all-byte-tables", (tabulate_all,))
