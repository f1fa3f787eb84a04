"""TFLite's transforms and complex numbers, which are pairs of parts along a last axis of ours."""

from __future__ import annotations

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.movement import reshaped
from afterglow.frontends.tflite.node import OPERAND_TYPES, TfliteNode
from afterglow.frontends.tflite.registry import complex_op, pair_of, part_of
from afterglow.graph import Value
from afterglow.ops.elementwise import Add, Mul, Sub
from afterglow.ops.functions import Sqrt
from afterglow.ops.reduction import ReduceSum
from afterglow.ops.signal import Dft
from afterglow.support.errors import ModelError


@complex_op("RFFT2D")
def rfft2d(n: TfliteNode) -> Value:
    """Of real numbers along the last two axes, cut or filled with zeros to given lengths."""
    x, lengths = n[0], n.known_ints(1)
    rank = x.type.rank
    if rank < 2 or len(lengths) != 2 or min(lengths) < 1:
        raise ModelError(f"{x.type} has no transform of lengths {lengths}")
    pairs = reshaped(n, x, (*x.type.shape, 1))
    rows = n.emit(Dft(rank - 1, lengths[1], onesided=True), pairs)
    if lengths[0] == 1 and x.type.shape[-2] == 1:
        return rows
    return n.emit(Dft(rank - 2, lengths[0]), rows)


@complex_op("REAL")
def real(n: TfliteNode) -> Value:
    """The first of both parts."""
    return part_of(n, n[0], 0)


@complex_op("IMAG")
def imaginary(n: TfliteNode) -> Value:
    """The second of both parts."""
    return part_of(n, n[0], 1)


@complex_op("COMPLEX_ABS")
def absolute(n: TfliteNode) -> Value:
    """The root of the sum of squares."""
    rank = n[0].type.rank
    squares = n.emit(Mul(), n[0], n[0])
    return n.emit(Sqrt(), n.emit(ReduceSum((rank - 1,), keepdims=False), squares))


@complex_op("CAST")
def cast(n: TfliteNode) -> Value:
    """To real numbers: the first of both parts."""
    dtype = n.result_type()
    if not dtype.is_number or dtype.name.startswith("c"):
        raise n.fail(f"a cast of complex numbers to {dtype} is not supported")
    return as_dtype(n, part_of(n, n[0], 0), dtype)


@complex_op("ADD", "SUB")
def sums(n: TfliteNode) -> Value:
    """Part by part."""
    both_complex(n)
    return n.emit(Add() if n.proto.op_type == "ADD" else Sub(), n[0], n[1])


@complex_op("MUL")
def product(n: TfliteNode) -> Value:
    """(a + bi) (c + di) = (ac - bd) + (ad + bc) i."""
    both_complex(n)
    (a, b), (c, d) = ((part_of(n, n[k], 0), part_of(n, n[k], 1)) for k in (0, 1))
    first = n.emit(Sub(), n.emit(Mul(), a, c), n.emit(Mul(), b, d))
    second = n.emit(Add(), n.emit(Mul(), a, d), n.emit(Mul(), b, c))
    return pair_of(n, first, second)


def both_complex(n: TfliteNode) -> None:
    """Refuse to combine complex numbers with others."""
    if set(n.texts(OPERAND_TYPES)) != {"c64"}:
        raise n.fail("complex numbers are only combined with complex numbers")
