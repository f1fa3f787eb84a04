"""ONNX's matrix products."""

from __future__ import annotations

from afterglow.frontends.common.linear import multiply, scaled
from afterglow.frontends.definition.context import NodeContext
from afterglow.frontends.onnx.registry import onnx_op
from afterglow.graph import Value
from afterglow.ops.conversion import Cast
from afterglow.ops.einsum import Einsum
from afterglow.ops.elementwise import Add, Sub
from afterglow.ops.linear import Det, MatMul
from afterglow.ops.movement import Reshape
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.support.errors import ModelError
from afterglow.types.dtype import i32


@onnx_op("MatMul")
def matmul(n: NodeContext) -> Value:
    """Vectors count as a row on the left and as a column on the right."""
    n.check_alike(0, 1)
    return multiply(n, n[0], n[1])


@onnx_op("Gemm")
def gemm(n: NodeContext) -> Value:
    """alpha * a b + beta * c; factors of 1 are left out."""
    n.check_alike(0, 1)
    transposes = bool(n.integer("transA", 0)), bool(n.integer("transB", 0))
    product = scaled(n, n.number("alpha", 1.0), n.emit(MatMul(*transposes), n[0], n[1]))
    added = n.get(2)
    if added is None:
        return product
    return n.emit(Add(), product, scaled(n, n.number("beta", 1.0), added))


@onnx_op("Einsum")
def einsum(n: NodeContext) -> Value:
    """As ours."""
    return n.emit(Einsum(n.text("equation")), *n.values())


@onnx_op("Det")
def det(n: NodeContext) -> Value:
    """As ours."""
    return n.emit(Det(), n[0])


@onnx_op("MatMulInteger")
def matmul_integer(n: NodeContext) -> Value:
    """A product in i32 of what the operands are above their zero points."""
    lhs = above_zero_point(n, n[0], n.get(2), axis=-2)
    rhs = above_zero_point(n, n[1], n.get(3), axis=-1)
    return multiply(n, lhs, rhs)


def above_zero_point(n: NodeContext, x: Value, zero: Value | None, axis: int) -> Value:
    """x - zero in i32, where a vector of zero points goes along an axis of x."""
    wide = n.emit(Cast(i32), x)
    if zero is None:
        return wide
    if zero.type.rank == 1:
        shape = [1] * x.type.rank
        if zero.type.size > 1:
            if not -x.type.rank <= axis < x.type.rank:
                raise ModelError(f"{x.type} has no axis {axis} for the zero points {zero.type}")
            shape[axis] = zero.type.size
        zero = n.emit(Reshape(tuple(shape)), zero)
    return n.emit(Sub(), wide, n.emit(Cast(i32), zero))


@onnx_op("QLinearMatMul")
def qlinear_matmul(n: NodeContext) -> Value:
    """A product of real numbers, quantized again; scales go along rows on the left."""
    lhs = dequantized(n, n[0], n[1], n[2], axis=-2)
    rhs = dequantized(n, n[3], n[4], n[5], axis=-1)
    return requantized(n, multiply(n, lhs, rhs), n[6], n[7], axis=-2)


def dequantized(n: NodeContext, x: Value, scale: Value, zero: Value | None, axis: int) -> Value:
    """The real numbers that x stands for; several scales go along an axis."""
    scale, zero = _flat(n, scale), None if zero is None else _flat(n, zero)
    return n.emit(DequantizeLinear(axis % max(1, x.type.rank), scale.type.dtype), x, scale, zero)


def requantized(n: NodeContext, x: Value, scale: Value, zero: Value, axis: int) -> Value:
    """x in the steps and in the element type of the zero point."""
    op = QuantizeLinear(axis % max(1, x.type.rank), zero.type.dtype)
    return n.emit(op, x, _flat(n, scale), _flat(n, zero))


def _flat(n: NodeContext, x: Value) -> Value:
    """A scale or zero point as a scalar if it is one, else as a vector."""
    return n.emit(Reshape(() if x.type.size == 1 else (x.type.size,)), x)
