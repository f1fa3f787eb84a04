"""What kernels of products and convolutions of bytes share: zero points, scales, weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from afterglow.backends.items.around import read
from afterglow.backends.items.language import Kernel, Pointer
from afterglow.backends.items.windows import Sliding
from afterglow.backends.pointwise.value import ValueT
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.instr import Buffer, OpInstr, Region
from afterglow.ops.quantized import QuantizedConv, QuantizedMatMul
from afterglow.types import Array
from afterglow.types.dtype import DType, f32, i16, i32


def shifted(x: ValueT, zero: ValueT | int) -> ValueT:
    """The difference of bytes from their zero point, in 32 bits."""
    wide = convert(x, i32)
    return wide if isinstance(zero, int) and zero == 0 else wide - zero


def zero_of_x(kernel: Kernel[ValueT]) -> ValueT | int:
    """The zero point of x, in 32 bits if it is known only when it runs."""
    step, known = kernel.step, known_zero_of_x(kernel.step)
    return convert(read(kernel, step.operand(4), []), i32) if known is None else known


def known_zero_of_x(step: OpInstr) -> int | None:
    """The zero point of the left operand; None if it is known only when it runs."""
    if isinstance(step.op, QuantizedMatMul):
        return step.op.lhs_zero_point
    assert isinstance(step.op, QuantizedConv)
    return step.op.x_zero_point if step.optional(4) is None else None


def scaled(kernel: Kernel[ValueT], total: ValueT, column: ValueT, lanes: int) -> ValueT:
    """Sums of some columns as results: with their bias, and times their scale."""
    scale, bias = kernel.step.optional(2), kernel.step.optional(3)
    if bias is not None:
        total = total + read(kernel, bias, [column], lanes)
    if scale is None:
        return total
    return convert(total, f32) * read(kernel, scale, [column] if scale.type.rank else [], lanes)


def place_of_row(lhs: Buffer, where: Sequence[ValueT]) -> list[ValueT]:
    """The place of a row in the left matrix, which may have fewer axes than the result."""
    return [*where[len(where) - (lhs.type.rank - 1) :]]


def zero_of_weight(step: OpInstr) -> int:
    """The zero point of the right operand."""
    if isinstance(step.op, QuantizedMatMul):
        return step.op.rhs_zero_point
    assert isinstance(step.op, QuantizedConv)
    return step.op.weight_zero_point


def packed_weight(
    kernel: Kernel[ValueT], order: str, pack: Callable[[Array], Array], type: DType = i16
) -> Pointer[ValueT]:
    """The differences of the weights from their zero point, in another order."""
    zero = zero_of_weight(kernel.step)

    def shift_and_pack(data: Array) -> Array:
        return pack(data.astype(np.int16) - np.int16(zero)).astype(type.numpy)

    order = f"{order}, {type} from {zero}"
    return kernel.packed(kernel.step.operand(1), order, shift_and_pack, type)


def sliding_of(kernel: Kernel[ValueT]) -> Sliding[ValueT]:
    """The windows of a convolution of bytes."""
    step = kernel.step
    assert isinstance(step.op, QuantizedConv)
    return Sliding(kernel, step, step.op.windows(step.operand(1).type.shape))


def is_known(weight: Buffer) -> bool:
    """Whether it can be packed when the program is compiled."""
    return weight.root.region is Region.CONSTANT and weight.type.size > 0


def is_depthwise(step: OpInstr) -> bool:
    """Whether a convolution has known weights, and each of its channels is by itself."""
    x, weight = step.operand(0), step.operand(1)
    alone = weight.type.shape[-1] == 1 and weight.type.shape[0] == x.type.shape[-1]
    return is_known(weight) and alone
