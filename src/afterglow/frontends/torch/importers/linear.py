"""ATen's matrix products."""

from __future__ import annotations

import math
from functools import reduce

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.linear import multiply, scaled
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.einsum import Einsum
from afterglow.ops.elementwise import Add, Mul
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantization import DequantizeLinear
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.rules import normal_axis
from afterglow.support.errors import ModelError
from afterglow.types.dtype import f32, i8, i32, u8

_PRODUCTS = {
    "mm.default": ("self", "mat2"),
    "bmm.default": ("self", "mat2"),
    "mv.default": ("self", "vec"),
    "matmul.default": ("self", "other"),
    "linalg_matmul.default": ("self", "other"),
    "dot.default": ("self", "tensor"),
    "vdot.default": ("self", "other"),
    "mm.dtype": ("self", "mat2"),
    "bmm.dtype": ("self", "mat2"),
}
_SUMS = {
    "addmm.default": ("mat1", "mat2"),
    "addmv.default": ("mat", "vec"),
    "baddbmm.default": ("batch1", "batch2"),
    "addbmm.default": ("batch1", "batch2"),
    "addr.default": ("vec1", "vec2"),
    "addmm.dtype": ("mat1", "mat2"),
    "baddbmm.dtype": ("batch1", "batch2"),
}


@aten(*_PRODUCTS)
def product(n: TorchNode) -> Value:
    """A vector is a row on the left and a column on the right."""
    lhs, rhs = (as_dtype(n, n.value(name), n.result_type()) for name in _PRODUCTS[n.proto.op_type])
    return multiply(n, lhs, _stored(n, rhs))


def _stored(n: TorchNode, weight: Value) -> Value:
    """A weight of bytes that becomes floats only here, so that it is kept as bytes."""
    match weight:
        case Value(Node(Cast(), [Value(source) as x])) if x.type.dtype in (i8, u8):
            known = isinstance(x, Constant)
            moved = isinstance(source, Node) and isinstance(source.operands[0], Constant)
            if weight.type.dtype is f32 and (known or moved):
                return n.emit(DequantizeLinear(0, f32), x, n.full(1, f32))
    return weight


@aten("_int_mm.default")
def integer_product(n: TorchNode) -> Value:
    """Bytes, summed in 32 bits."""
    return multiply(n, *(as_dtype(n, n.value(name), i32) for name in ("self", "mat2")))


@aten("linear.default")
def linear(n: TorchNode) -> Value:
    """x times the transposed weight, plus a bias; a weight may be a vector."""
    x, weight, bias = n.value("input"), n.value("weight"), n.optional("bias")
    y = multiply(n, x, weight) if weight.type.rank == 1 else _times_transposed(n, x, weight)
    return y if bias is None else n.emit(Add(), y, bias)


def _times_transposed(n: TorchNode, x: Value, weight: Value) -> Value:
    if x.type.rank > 1:
        return n.emit(MatMul(False, True), x, weight)
    y = n.emit(MatMul(False, True), n.emit(Reshape((1, *x.type.shape)), x), weight)
    return n.emit(Reshape((weight.type.shape[0],)), y)


@aten(*_SUMS)
def sum_with_product(n: TorchNode) -> Value:
    """beta self + alpha a b; what beta 0 multiplies does not count, not even NaN."""
    dtype = n.result_type()
    lhs, rhs = (as_dtype(n, n.value(name), dtype) for name in _SUMS[n.proto.op_type])
    if n.proto.op_type == "addr.default":
        result = outer_product(n, lhs, rhs)
    else:
        result = multiply(n, lhs, rhs)
    if n.proto.op_type == "addbmm.default":
        result = n.emit(ReduceSum((0,), False), result)
    alpha, beta = n.scalar("alpha"), n.scalar("beta")
    result = scaled(n, alpha, result)
    if beta == 0:
        return result
    return n.emit(Add(), result, scaled(n, beta, as_dtype(n, n.value("self"), dtype)))


def outer_product(n: TorchNode, lhs: Value, rhs: Value) -> Value:
    """Each element of a vector times each of another."""
    column = n.emit(Reshape((*n.extents(lhs, 1), 1)), lhs)
    n.extents(rhs, 1)
    return n.emit(Mul(), column, rhs)


@aten("outer.default", "ger.default")
def outer(n: TorchNode) -> Value:
    """By broadcasting."""
    dtype = n.result_type()
    return outer_product(n, *(as_dtype(n, n.value(name), dtype) for name in ("self", "vec2")))


@aten("inner.default")
def inner(n: TorchNode) -> Value:
    """Over the last axis of both; a number multiplies."""
    lhs, rhs = n.value("self"), n.value("other")
    if not lhs.type.rank or not rhs.type.rank:
        return n.emit(Mul(), lhs, rhs)
    return _contracted(n, lhs, rhs, (lhs.type.rank - 1,), (rhs.type.rank - 1,))


@aten("tensordot.default")
def tensordot(n: TorchNode) -> Value:
    """Over any axes; one of extent 1 counts as often as the other's."""
    lhs, rhs = n.value("self"), n.value("other")
    given = [n.argument(name) or () for name in ("dims_self", "dims_other")]
    axes, others = (
        tuple(normal_axis(axis, x.type) for axis in dims)
        for x, dims in zip((lhs, rhs), given, strict=True)
    )
    pairs = list(zip(axes, others, strict=True))
    short = tuple(a for a, o in pairs if lhs.type.shape[a] == 1 != rhs.type.shape[o])
    short_other = tuple(o for a, o in pairs if rhs.type.shape[o] == 1 != lhs.type.shape[a])
    rhs = n.emit(ReduceSum(tuple(o for a, o in pairs if a in short)), rhs) if short else rhs
    if short_other:
        lhs = n.emit(ReduceSum(tuple(a for a, o in pairs if o in short_other)), lhs)
    return _contracted(n, lhs, rhs, axes, others)


def _contracted(
    n: TorchNode, lhs: Value, rhs: Value, axes: tuple[int, ...], others: tuple[int, ...]
) -> Value:
    """Sums over pairs of axes; what is left of lhs comes before what is left of rhs."""
    kept = [axis for axis in range(lhs.type.rank) if axis not in axes]
    kept_other = [axis for axis in range(rhs.type.rank) if axis not in others]
    rows = tuple(lhs.type.shape[axis] for axis in kept)
    columns = tuple(rhs.type.shape[axis] for axis in kept_other)
    depth = math.prod(lhs.type.shape[axis] for axis in axes)
    lhs = n.emit(Transpose((*kept, *axes)), lhs)
    rhs = n.emit(Transpose((*others, *kept_other)), rhs)
    lhs = n.emit(Reshape((math.prod(rows), depth)), lhs)
    rhs = n.emit(Reshape((depth, math.prod(columns))), rhs)
    return n.emit(Reshape((*rows, *columns)), n.emit(MatMul(), lhs, rhs))


@aten("einsum.default")
def einsum(n: TorchNode) -> Value:
    """Its letters and dots are ours; the order of products is our own."""
    operands = [x for x in n.tensors("tensors") if x is not None]
    return n.emit(Einsum(str(n.argument("equation")).replace(" ", "")), *operands)


@aten("chain_matmul.default", "linalg_multi_dot.default")
def chain(n: TorchNode) -> Value:
    """From the left."""
    name = "matrices" if n.has("matrices") else "tensors"
    operands = [x for x in n.tensors(name) if x is not None]
    if not operands:
        raise ModelError("there is no matrix to multiply")
    return reduce(lambda lhs, rhs: multiply(n, lhs, rhs), operands)


@aten("linalg_vecdot.default")
def vecdot(n: TorchNode) -> Value:
    """The sum of products along an axis."""
    products = n.emit(Mul(), n.value("x"), n.value("y"))
    return n.emit(ReduceSum((normal_axis(n.size("dim"), products.type),), False), products)


@aten("bilinear.default")
def bilinear(n: TorchNode) -> Value:
    """x weight y for each feature, plus a bias."""
    x, y, weight, bias = n.value("input1"), n.value("input2"), n.value("weight"), n.optional("bias")
    result = n.emit(Einsum("...i,oij,...j->...o"), x, weight, y)
    return result if bias is None else n.emit(Add(), result, bias)


@aten("kron.default")
def kron(n: TorchNode) -> Value:
    """Each element of one times the whole of the other."""
    lhs, rhs = (as_dtype(n, n.value(name), n.result_type()) for name in ("self", "other"))
    rank = max(lhs.type.rank, rhs.type.rank)
    first, second = ((1,) * (rank - x.type.rank) + x.type.shape for x in (lhs, rhs))
    apart = tuple(extent for each in first for extent in (each, 1))
    other = tuple(extent for each in second for extent in (1, each))
    spread = n.emit(Mul(), n.emit(Reshape(apart), lhs), n.emit(Reshape(other), rhs))
    return n.emit(Reshape(tuple(a * b for a, b in zip(first, second, strict=True))), spread)
