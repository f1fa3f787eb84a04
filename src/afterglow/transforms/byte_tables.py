"""Look up functions of one byte instead of computing them."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Node, Op, Value
from afterglow.ops import activation
from afterglow.ops import elementwise as arithmetic
from afterglow.ops.conversion import Cast
from afterglow.ops.fixed_point import ENTRIES, ByteTable
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.chains import Chain
from afterglow.transforms.matching.quantized import BYTES, STORED_TYPES
from afterglow.types import DType

ALL = {dtype: np.arange(ENTRIES, dtype=np.uint8).view(dtype.numpy) for dtype in BYTES}
"""All numbers of a byte, in the order of tables."""

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
    chain = _chain_before(node)
    if chain is None or all(isinstance(op, CHEAP) for op in chain.ops[:-1]):
        return None
    return _tabulated(b, chain)


@rewrite(QuantizeLinear)
def tabulate_all(node: Node, b: Builder) -> Value | None:
    """quantize(f(dequantize(x)))  ->  byte_table(x),  f of any nodes, or none."""
    chain = _chain_before(node)
    return None if chain is None else _tabulated(b, chain)


def _chain_before(node: Node) -> Chain | None:
    """What a node computes, if it stores a function of one byte."""
    result = node.results[0]
    return Chain.of(result, ALL) if result.type.dtype in STORED_TYPES else None


def _tabulated(b: Builder, chain: Chain) -> Value:
    """The table, applied to the source."""
    numbers = tuple(int(number) for number in chain.result.reshape(-1))
    return b.emit(ByteTable(numbers, DType.of(chain.result.dtype)), chain.source)


BYTE_TABLES = RewritePass("byte-tables", (tabulate_functions,))
ALL_BYTE_TABLES = RewritePass("all-byte-tables", (tabulate_all,))
