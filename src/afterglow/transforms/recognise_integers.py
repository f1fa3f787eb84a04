"""Recognise products of bytes that are written as products of 32-bit integers."""

from __future__ import annotations

import numpy as np

from afterglow.graph import Builder, Constant, Node, Value
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv
from afterglow.ops.elementwise import Add, Mul, Sub, scalar
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Reshape, Transpose
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.ops.reduction import ReduceSum
from afterglow.passes import RewritePass, rewrite
from afterglow.support.lazy_dataclass import dataclass
from afterglow.transforms.matching.values import has_one_use
from afterglow.types import Array
from afterglow.types.dtype import f32, i8, i32, u8


@dataclass(frozen=True)
class Shifted:
    """x - zero point as i32: x holds bytes, the zero point is a number, or a value if unknown."""

    x: Value
    zero_point: int
    zero: Value | None = None

    @staticmethod
    def of(value: Value) -> Shifted | None:
        """What a value is computed from, if it is bytes less one of them."""
        if value.type.dtype is not i32:
            return None
        match value:
            case Value(Node(Cast(), [Value() as x])):
                return _known(x, 0)
            case Value(Node(Add(), [Value(Node(Cast(), [Value() as x])), Constant(z)])):
                return _known(x, -int(z)) if z.shape == () else None
            case Value(Node(Sub(), [Value(Node(Cast(), [Value() as x])), Constant(z)])):
                return _known(x, int(z)) if z.shape == () else None
            case Value(Node(Sub(), [Value(Node(Cast(), [Value() as x])), Value() as zero])):
                is_one = zero.type.shape == () and x.type.dtype in (i8, u8)
                return Shifted(x, 0, zero) if is_one else None
        return None

    @property
    def stored_zero(self) -> Value | None:
        """The zero point as a byte of the type of x; None if it is not made of one."""
        match self.zero:
            case Value(Node(Cast(), [Value() as zero])) if zero.type == self.x.type.with_shape(()):
                return zero
        return None


@dataclass(frozen=True)
class Weight:
    """A constant as signed bytes, from which their zero point is subtracted."""

    data: Array
    zero_point: int

    @staticmethod
    def of(value: Constant) -> Weight | None:
        """A constant of type i32, if it fits."""
        if value.type.dtype is not i32 or not value.data.size:
            return None
        least, most = int(value.data.min()), int(value.data.max())
        zero_point = 0 if least >= -128 and most <= 127 else -128 - least
        if not -128 <= zero_point <= 127 or most + zero_point > 127:
            return None
        return Weight((value.data + zero_point).astype(np.int8), zero_point)


@rewrite(Reshape, Transpose)
def move_bytes(node: Node, b: Builder) -> Value | None:
    """move(i32(x) - z)  ->  i32(move(x)) - z,  move a reshape or a transpose, x bytes, z a number.

    So a product that reads what was moved still finds the bytes.
    """
    match node:
        case Node(Reshape() | Transpose() as move, [Value() as moved]) if moved.type.dtype is i32:
            found = Shifted.of(moved)
            if found is None or isinstance(found.x, Constant):
                return None
            wide = b.emit(Cast(i32), b.emit(move, found.x))
            if found.zero is not None:
                return b.emit(Sub(), wide, found.zero)
            return (
                b.emit(Sub(), wide, scalar(b, found.zero_point, wide)) if found.zero_point else wide
            )
    return None


@rewrite(MatMul)
def centre_columns(node: Node, b: Builder) -> Value | None:
    """matmul(x - z, w)  ->  matmul(x - z, w + c) - sum(x - z) c,  x bytes, w a constant matrix.

    c is a number for each column: each fits bytes then, as all together did not. So it is where
    unsigned weights have a zero point for each column.
    """
    match node:
        case Node(MatMul(transpose_lhs=False) as op, [Value() as lhs, Constant() as constant]):
            fits = constant.type.rank != 2 or Weight.of(constant) is not None
            if fits or lhs.type.rank < 2 or Shifted.of(lhs) is None:
                return None
            centre = _centre(constant, 1 if op.transpose_rhs else 0)
            if centre is None:
                return None
            moved = b.constant(constant.data + centre, f"{node.name}.centred")
            rows = b.emit(ReduceSum((lhs.type.rank - 1,)), lhs)
            shift = b.constant(centre.reshape(-1), f"{node.name}.centre")
            return b.emit(Sub(), b.emit(op, lhs, moved), b.emit(Mul(), rows, shift))
    return None


def _centre(weight: Constant, depth: int) -> Array | None:
    """What makes signed bytes of each column, if added to it; None if there is no such number."""
    if weight.type.dtype is not i32 or not weight.data.size:
        return None
    least, most = (part(depth, keepdims=True) for part in (weight.data.min, weight.data.max))
    within = (least >= -255) & (most <= 255) & (most - least <= 255)
    added = np.where((least >= -128) & (most <= 127), 0, -128 - least)
    return added.astype(np.int32) if within.all() else None


@rewrite(MatMul)
def recognise_matmul(node: Node, b: Builder) -> Value | None:
    """matmul(x - z, w)  ->  quantized_matmul(x, w) - z sum(w),  x bytes, w a constant that fits.

    If z is a constant, it is part of the op.
    """
    match node:
        case Node(MatMul() as op, [Value() as lhs, Constant() as constant]):
            found, weight = Shifted.of(lhs), Weight.of(constant)
            if found is None or weight is None or constant.type.rank != 2:
                return None
            zero_points = (found.zero_point, weight.zero_point)
            integers = QuantizedMatMul(op.transpose_lhs, op.transpose_rhs, *zero_points)
            stored = b.constant(weight.data, f"{node.name}.weight")
            if found.zero is None:
                return b.emit(integers, found.x, stored)
            depth = 1 if op.transpose_rhs else 0
            sums = b.constant(constant.data.sum(depth, dtype=np.int32), f"{node.name}.sums")
            product = b.emit(integers, found.x, stored)
            return b.emit(Sub(), product, b.emit(Mul(), found.zero, sums))
    return None


@rewrite(Conv)
def recognise_conv(node: Node, b: Builder) -> Value | None:
    """conv(x - z, w)  ->  quantized_conv(x, w, z),  x and z bytes, w a constant that fits.

    If z is a constant, it is part of the op.
    """
    match node:
        case Node(Conv() as op, [Value() as x, Constant() as constant]):
            found, weight = Shifted.of(x), Weight.of(constant)
            if found is None or weight is None:
                return None
            zero = None if found.zero is None else found.stored_zero
            if zero is None and found.zero is not None:
                return None
            zero_points = (found.zero_point, weight.zero_point)
            integers = QuantizedConv(op.strides, op.pads, op.dilations, op.groups, *zero_points)
            stored = b.constant(weight.data, f"{node.name}.weight")
            return b.emit(integers, found.x, stored, None, None, zero)
    return None


@rewrite(Add)
def take_bias(node: Node, b: Builder) -> Value | None:
    """quantized(x, w) + c  ->  quantized(x, w, bias c),  sums of i32, c a constant vector.

    Sums wrap around in either form.
    """
    match node:
        case Node(
            Add(),
            [
                Value(
                    Node(QuantizedConv() | QuantizedMatMul() as op, [x, weight, *others])
                ) as sums,
                Constant() as bias,
            ],
        ) if has_one_use(sums) and bias.type.dtype is i32:
            scale, other, *zero = (*others, None, None)[: max(2, len(others))]
            if scale is None and other is None and bias.type.shape == sums.type.shape[-1:]:
                return b.emit(op, x, weight, None, bias, *zero)
    return None


@rewrite(Mul)
def take_scale(node: Node, b: Builder) -> Value | None:
    """f32(quantized(x, w, bias c)) s  ->  quantized(x, w, s, c),  s a constant."""
    match node:
        case Node(
            Mul(),
            [
                Value(
                    Node(
                        Cast(),
                        [
                            Value(
                                Node(
                                    QuantizedConv() | QuantizedMatMul() as op, [x, weight, *others]
                                )
                            ) as sums
                        ],
                    )
                ) as floats,
                Constant() as factor,
            ],
        ) if has_one_use(sums) and has_one_use(floats) and factor.type.dtype is f32:
            scale, *rest = (*others, None)[: max(1, len(others))]
            if scale is None and factor.type.shape in ((), sums.type.shape[-1:]):
                return b.emit(op, x, weight, factor, *rest)
    return None


def _known(x: Value, zero_point: int) -> Shifted | None:
    """Bytes less a number, which must be one of them."""
    if x.type.dtype not in (i8, u8):
        return None
    least = -128 if x.type.dtype is i8 else 0
    return Shifted(x, zero_point) if least <= zero_point < least + 256 else None


RECOGNISE_INTEGERS = RewritePass(
    "recognise-integers",
    (move_bytes, centre_columns, recognise_matmul, recognise_conv, take_bias, take_scale),
)
