"""Products in integers without a profile: each row of what they read is quantized as it comes.

A row x becomes signed bytes, x / s with s = max |x| / 127, and the weight bytes with a scale for
each column: sums of products are exact integers, which both scales make real again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.activation import Clip
from afterglow.ops.conversion import Cast
from afterglow.ops.elementwise import Abs, Div, Max, Mul, Round, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.quantized import QuantizedMatMul
from afterglow.ops.reduction import ReduceMax
from afterglow.passes import Pass
from afterglow.quantization.points import is_anchor
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.weight_only import LEAST_SIZE
from afterglow.quantization.weights import quantize_weight
from afterglow.types.dtype import i8
from afterglow.types.extent import is_ranged

MOST = 127.0
"""The largest byte, and the magnitude that the largest number of a row becomes."""
LEAST_MAGNITUDE = 2.0**-100
"""Rows whose largest number is less are as if it were this, so that their scale is normal."""


class QuantizeProducts(Pass):
    """Products with large constant weights become products of bytes, row by row.

    Those of nodes that `keep` holds of stay as they are. Works on the main function.
    """

    name = "quantize-products"

    def __init__(
        self,
        keep: Callable[[Node], bool] = lambda node: False,
        least_size: int = LEAST_SIZE,
        rounding: Rounding | None = None,
    ) -> None:
        self.rounding = rounding
        """Rounds weights by what products read; None: to the nearest integers."""
        self.keep = keep
        self.least_size = least_size

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        chosen = [node for node in function.nodes if self._is_chosen(node)]
        rows: dict[Value, tuple[Value, Value]] = {}
        for node in chosen:
            x = node.operands[0]
            assert x is not None
            if x not in rows:
                rows[x] = _quantized_rows(Builder(function, node, origins=node.origins), x)
            self._replace(function, node, *rows[x])
        return bool(chosen)

    def _is_chosen(self, node: Node) -> bool:
        match node:
            case Node(MatMul(transpose_lhs=False), [Value() as x, Constant() as weight]):
                large = weight.type.size >= max(1, self.least_size)
                depth = x.type.shape[-1] if x.type.rank > 1 else 0
                fits = bool(depth) and not is_ranged(depth)
                return is_anchor(node) and large and fits and not self.keep(node)
        return False

    def _replace(self, function: Function, node: Node, rows: Value, scale: Value) -> None:
        """Let a product of bytes take the place of a product."""
        op, weight = node.op, node.operands[1]
        assert isinstance(op, MatMul)
        assert isinstance(weight, Constant)
        chosen = quantize_weight(weight.data, 0 if op.transpose_rhs else 1)
        if self.rounding is not None:
            chosen = self.rounding.rounded([node.name], op, weight.data, chosen)
        b = Builder(function, node, name=node.name, origins=node.origins, predicate=node.predicate)
        stored = b.constant(chosen.stored, f"{weight.name}.stored")
        columns = b.constant(chosen.scales.astype(np.float32), f"{weight.name}.scale")
        sums = b.emit(QuantizedMatMul(False, op.transpose_rhs), rows, stored, columns)
        result = b.emit(Mul(), sums, scale)
        function.substitute(node, result)


def _quantized_rows(b: Builder, x: Value) -> tuple[Value, Value]:
    """The rows of x as bytes, and their scales [..., rows, 1]."""
    largest = b.emit(ReduceMax((x.type.rank - 1,), True), b.emit(Abs(), x))
    largest = b.emit(Max(), largest, scalar(b, LEAST_MAGNITUDE, largest))
    scale = b.emit(Div(), largest, scalar(b, MOST, largest))
    steps = b.emit(Round(), b.emit(Div(), x, scale))
    return b.emit(Cast(i8), b.emit(Clip(-MOST, MOST), steps)), scale
