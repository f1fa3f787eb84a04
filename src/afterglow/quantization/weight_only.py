"""Weights of products and embeddings stored in eight or four bits; activations stay in floats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.indexing import Gather
from afterglow.ops.linear import MatMul
from afterglow.ops.stored import StoredGather, StoredMatMul
from afterglow.passes import Pass
from afterglow.quantization.rounding import Rounding
from afterglow.quantization.scheme import Scheme
from afterglow.quantization.weights import (
    FEW_SHRINKAGES,
    QuantizedWeight,
    quantize_groups,
    quantize_weight,
    round_to_floats,
)
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array, DType
from afterglow.types.dtype import bf16, f8e4m3fn, f16, f32, i8, u4

Parts = Sequence[Value | None]
"""Numbers, scales and zero points."""
LEAST_SIZE = 1 << 14
"""Weights with fewer elements stay as they are: they fit in a cache near the core."""


@dataclass(frozen=True)
class WeightFormat:
    """How weights are stored: the type of numbers, and what shares a scale."""

    dtype: DType = u4
    """Integers, or floats of 8 bits, which have no zero points."""
    group_size: int = 32
    """How many neighbours along the depth share a scale; 0: all of a row do."""
    scheme: Scheme = Scheme.ASYMMETRIC
    scales: DType = f32
    """The type of scales."""
    search: bool = True
    """Whether ranges are those with the least squared error."""

    def quantize(self, rows: Array) -> QuantizedWeight:
        """Quantize weights [rows, depth]."""
        if self.dtype.is_float:
            return round_to_floats(rows, self.dtype)
        if self.group_size:
            return quantize_groups(
                *(rows, 1, self.group_size, self.dtype, self.scheme),
                search=self.search,
                scale_dtype=self.scales,
                tried=FEW_SHRINKAGES,
            )
        return quantize_weight(rows, 0, self.dtype, self.scheme, search=self.search)

    def nearest(self, rows: Array) -> Array:
        """The weights [rows, depth] that quantized ones stand for."""
        return self.quantize(rows).dequantized()


FORMATS = {
    i8: WeightFormat(i8, 0, Scheme.SYMMETRIC, search=False),
    u4: WeightFormat(u4, 32, Scheme.ASYMMETRIC, bf16),
    f8e4m3fn: WeightFormat(f8e4m3fn, 0, Scheme.SYMMETRIC, search=False),
}
"""How weights are stored by default, by the type of numbers."""


class QuantizeWeights(Pass):
    """Constants that are multiplied or looked up are stored in few bits, with scales.

    They are stored as [rows, depth], once for all that read them. A constant that is read
    otherwise as well stays as it is, and so do those of nodes that `keep` holds of. Works on the
    main function.
    """

    name = "quantize-weights"

    def __init__(
        self,
        format: WeightFormat = WeightFormat(),  # noqa: B008  a frozen value
        *,
        rounding: Rounding | None = None,
        divided: Mapping[str, Array] | None = None,
        keep: Callable[[Node], bool] = lambda node: False,
        least_size: int = LEAST_SIZE,
    ) -> None:
        self.format = format
        self.rounding = rounding
        """Rounds weights by what products read; None: to the nearest integers."""
        self.divided = {} if divided is None else divided
        """What the channels that a product reads were divided by, by its name."""
        self.keep = keep
        self.least_size = least_size

    def run(self, function: Function) -> bool:
        """See the class."""
        if function is not function.module.main:
            return False
        escaping = {id(value) for value in function.escaping()}
        chosen = [
            constant
            for constant in function.constants()
            if id(constant) not in escaping and self._is_chosen(constant)
        ]
        for constant in chosen:
            self._replace(function, constant)
        return bool(chosen)

    def _is_chosen(self, constant: Constant) -> bool:
        type = constant.type
        if (
            type.dtype not in (f32, f16, bf16)
            or type.rank != 2
            or type.size < max(1, self.least_size)
        ):
            return False
        axes = {_depth_axis(node, place) for node, place in constant.uses}
        kept = any(self.keep(node) for node in constant.users)
        return len(axes) == 1 and None not in axes and not kept

    def _replace(self, function: Function, constant: Constant) -> None:
        """Store a constant in few bits, and let each reader compute from these."""
        axis = _depth_axis(*constant.uses[0])
        data = constant.data.astype(np.float32, copy=False)
        rows = data if axis == 1 else np.ascontiguousarray(data.T)
        found = self._quantized(rows, constant.users)
        b = Builder(function)
        parts = [
            None if data is None else b.constant(data, f"{constant.name}.{name}")
            for name, data in found.parts.items()
        ]
        for node, _ in constant.uses:
            reader = Builder(function, node, origins=node.origins, predicate=node.predicate)
            function.substitute(node, _computed(reader, node, found, parts))

    def _quantized(self, rows: Array, readers: list[Node]) -> QuantizedWeight:
        nearest = self.format.quantize(rows)
        if self.rounding is None:
            return nearest
        names = [node.name for node in readers]
        divided = next((self.divided[name] for name in names if name in self.divided), None)
        op = MatMul(transpose_rhs=True)
        return self.rounding.rounded(names, op, rows, nearest, divided=divided)


def _depth_axis(node: Node, place: int) -> int | None:
    """The axis of a matrix along which products sum, or embeddings have their channels."""
    match node.op, place:
        case MatMul(transpose_lhs=False, transpose_rhs=transposed), 1:
            return 1 if transposed else 0
        case Gather(axis), 0 if axis in (0, -2):
            return 1
    return None


def _computed(b: Builder, node: Node, found: QuantizedWeight, parts: Parts) -> Value:
    """matmul(x, w)  ->  stored_matmul(x, stored),  gather(w, i)  ->  stored_gather(i, stored)."""
    x = node.operands[1 if isinstance(node.op, Gather) else 0]
    op = StoredGather if isinstance(node.op, Gather) else StoredMatMul
    made, wanted = b.emit(op(found.block_size), x, *parts), node.result.type.dtype
    return made if made.type.dtype is wanted else b.emit(Cast(wanted), made)
