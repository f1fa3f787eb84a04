"""Keep axes apart that a reshape would join, so that transposes can move and sums stand together.

PyTorch's attention module has its tokens first, joins images with heads, and multiplies rows of
two axes; none of that has to be done.
"""

from __future__ import annotations

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.elementwise import Add
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.layouts.layout import Layout
from afterglow.transforms.layouts.moved import multiplies_rows
from afterglow.transforms.matching.values import has_one_use
from afterglow.transforms.transposes import transposed_once
from afterglow.types import TensorType
from afterglow.types.extent import is_ranged


@rewrite(Reshape)
def transpose_unjoined(node: Node, b: Builder) -> Value | None:
    """reshape(transpose(reshape(x, s), p), t)  ->  transpose(reshape(x, s'), p').

    If s joins axes of x that t cuts again: s' only cuts axes, so that it is a view of any x.
    """
    match node:
        case Node(
            Reshape(shape),
            [Value(Node(Transpose(p), [Value(Node(Reshape(joined), [Value() as x]))])) as moved],
        ) if has_one_use(moved) and _is_plain(x.type) and not _only_cuts(x.type.shape, joined):
            layout = Layout(joined, p).carried(x.type.shape)
            if layout is None or _long(layout.shape) != _long(shape):
                return None
            found = b.emit(Transpose(layout.perm), b.emit(Reshape(layout.factors), x))
            return found if layout.shape == shape else b.emit(Reshape(shape), found)
    return None


@rewrite(Reshape)
def multiply_regrouped(node: Node, b: Builder) -> Value | None:
    """reshape(matmul(x, w), (*s, n))  ->  matmul(reshape(x, (*s, k)), w),  of two matrices.

    A sum with a vector, of a bias, may come between.
    """
    match node:
        case Node(Reshape((*rows, columns)), [Value() as y]) if has_one_use(y) and len(rows) > 1:
            product, bias = _product_and_bias(y)
            match product.producer:
                case Node(MatMul(transpose_lhs=False) as op, [Value() as x, Value() as w]) if (
                    _are_matrices(x, w, y) and columns == y.type.shape[-1]
                ):
                    regrouped = b.emit(Reshape((*rows, x.type.shape[-1])), _unshaped(x))
                    found = b.emit(op, regrouped, w)
                    return found if bias is None else b.emit(Add(), found, bias)
    return None


@rewrite(Transpose)
def multiply_transposed_rows(node: Node, b: Builder) -> Value | None:
    """transpose(matmul(x, w), p)  ->  matmul(transpose(x, p), w),  if x is transposed already.

    And p keeps the last axis, and w is a matrix. A sum with a vector may come between.
    """
    match node:
        case Node(Transpose((*_, last) as perm), [Value() as y]) if has_one_use(y):
            product, bias = _product_and_bias(y)
            match product.producer:
                case Node(_, [Value() as x, Value() as w]) as inner if (
                    multiplies_rows(inner) and last == len(perm) - 1 and has_one_use(x)
                ):
                    moved = transposed_once(b, x, perm)
                    if moved is None:
                        return None
                    found = b.emit(inner.op, moved, w)
                    return found if bias is None else b.emit(Add(), found, bias)
    return None


def _product_and_bias(value: Value) -> tuple[Value, Constant | None]:
    """A sum with a constant vector as its two operands; another value alone."""
    match value:
        case Value(Node(Add(), [Value() as product, Constant() as bias])) if (
            has_one_use(product) and bias.type.rank == 1 and product.type == value.type
        ):
            return product, bias
    return value, None


def _unshaped(value: Value) -> Value:
    """What a value is a reshape of, which is not to hide what made it."""
    match value:
        case Value(Node(Reshape(), [Value() as x])):
            return x
    return value


def _are_matrices(x: Value, w: Value, y: Value) -> bool:
    return all(value.type.rank == 2 and _is_plain(value.type) for value in (x, w, y))


def _is_plain(type: TensorType) -> bool:
    """Whether there are elements, as many as is known, whose meaning no axis decides."""
    known = type.nbytes > 0 and not any(is_ranged(extent) for extent in type.shape)
    return known and type.quantization is None


def _only_cuts(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """Whether each axis of a shape is the product of some neighbouring ones of another."""
    rest = iter(_long(after))
    for extent in _long(before):
        covered = 1
        while covered < extent:
            covered *= next(rest)
        if covered != extent:
            return False
    return True


def _long(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(extent for extent in shape if extent != 1)


REGROUP_AXES = RewritePass(
    "regroup-axes", (transpose_unjoined, multiply_regrouped, multiply_transposed_rows)
)
