"""Merge matrix products of one left operand with several constants, stored in any way, into one.

Queries, keys and values of attention are the case in mind: the left operand is read once, and the
right one is wide. Each product becomes a slice of the merged one along the last axis.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import accumulate

import numpy as np

from afterglow.graph import Builder, Constant, Function, Node, Origins, Value, joined_origins
from afterglow.ops.attention import Attention
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose, slice_axis
from afterglow.ops.stored import StoredMatMul
from afterglow.passes import Pass
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.values import escapes, has_one_use
from afterglow.types import Array

FOLLOWERS = (Reshape, Transpose, MatMul, Attention)
"""Ops that take a slice as readily as a whole; others might run as part of the product itself."""


@dataclass(frozen=True)
class Product:
    """A matrix product with a constant, and the sum with a constant vector that follows it."""

    node: Node
    weights: tuple[Constant | None, ...]
    """The matrix; of a stored one also its scales, zero points and minimums."""
    bias: Constant | None
    result: Value
    """What others take: the sum, or the product if there is none."""

    @property
    def origins(self) -> Origins:
        """Those of the product and of the sum."""
        last = self.result.producer
        return joined_origins((self.node.origins, () if last is None else last.origins))

    @property
    def columns(self) -> int:
        """The number of columns that it adds to a merged product."""
        return self.result.type.shape[-1]

    def partners(self) -> Hashable:
        """The key under which products may be merged."""
        lhs = self.node.operands[0]
        types = tuple(part and part.type.dtype for part in self.weights)
        return lhs, self.node.op, types, self.node.predicate

    @property
    def axis(self) -> int:
        """The axis of the matrix along which its columns of results lie."""
        op = self.node.op
        return 1 if isinstance(op, MatMul) and not op.transpose_rhs else 0


class MergeMatMuls(Pass):
    """See the module."""

    name = "merge-matmuls"

    def run(self, function: Function) -> bool:
        """See the module."""
        groups: dict[Hashable, list[Product]] = {}
        for node in function.nodes:
            product = _product(node)
            if product is not None:
                groups.setdefault(product.partners(), []).append(product)
        several = [group for group in groups.values() if len(group) > 1]
        for group in several:
            _merge(function, group)
        return bool(several)


def _product(node: Node) -> Product | None:
    """The node as a product that merging does not make slower; None if it is not one."""
    match node:
        case Node(MatMul() | StoredMatMul(), [Value(), Constant() as matrix, *shared]):
            weights = matrix, *(part if isinstance(part, Constant) else None for part in shared)
            if weights != (matrix, *shared) or matrix.type.rank != 2:
                return None
            bias, result = _sum_after(node)
            fits = all(isinstance(user.op, FOLLOWERS) for user in result.users)
            if not fits or not result.use_count or escapes(result) or matrix.use_count > 1:
                return None
            return Product(node, weights, bias, result)
    return None


def _sum_after(node: Node) -> tuple[Constant | None, Value]:
    """The vector that is added to the product, if that is all that is done with it."""
    product = node.result
    match product.users:
        case [Node(Add(), [Value() as x, Constant() as bias]) as user] if has_one_use(product):
            columns = product.type.shape[-1:]
            vector = bias.type.shape[-1:] == columns and bias.type.size == columns[0]
            same = user.result.type == product.type and user.predicate is node.predicate
            if x is product and vector and same:
                return bias, user.result
    return None, product


def _merge(function: Function, group: Sequence[Product]) -> None:
    """Emit the merged product where the first one was; everything it needs is there already."""
    first = group[0].node
    origins = joined_origins(product.origins for product in group)
    b = Builder(function, first, name=first.name, origins=origins, predicate=first.predicate)
    columns = [product.weights for product in group]
    weights = [_joined(b, parts, group[0].axis) for parts in zip(*columns, strict=True)]
    merged = b.emit(first.op, first.operands[0], *weights)
    biases = [product.bias for product in group if product.bias is not None]
    if biases:
        merged = b.emit(Add(), merged, b.constant(_bias(group), biases[0].name))
    starts = accumulate((product.columns for product in group), initial=0)
    axis = merged.type.rank - 1
    parts = [
        b.emit(slice_axis(merged.type, axis, start, each.columns), merged, origins=each.origins)
        for start, each in zip(starts, group, strict=False)
    ]
    for product, part in zip(group, parts, strict=True):
        function.replace(product.result, part)
        for node in product.result.producer, product.node:
            if node is not None and node.function is function:
                function.erase(node)
        function.rename(part, product.result.name)


def _joined(b: Builder, parts: Sequence[Constant | None], axis: int) -> Value | None:
    """Parts of matrices as one constant, named as the first."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    return b.constant(np.concatenate([part.data for part in present], axis), present[0].name)


def _bias(group: Sequence[Product]) -> Array:
    """The vectors one after the other, zeros where a product has none."""
    dtype = group[0].result.type.dtype.numpy
    return np.concatenate(
        [
            np.zeros(product.columns, dtype)
            if product.bias is None
            else product.bias.data.reshape(-1)
            for product in group
        ]
    )
