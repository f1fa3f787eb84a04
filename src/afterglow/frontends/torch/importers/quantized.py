"""Quantization in PyTorch's exported programs: PT2E's ops, and torchao's with blocks.

They become ours with scales and zero points, from which integer kernels are recognised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.frontends.common.conversion import as_dtype
from afterglow.frontends.common.quantization import dequantize, quantize
from afterglow.frontends.torch.node import TorchNode
from afterglow.frontends.torch.registry import aten
from afterglow.graph import Value
from afterglow.ops.activation import Clip
from afterglow.ops.arithmetic import Arithmetic
from afterglow.ops.elementwise import Add, Max, Min, Mul, Neg, Round
from afterglow.ops.functions import Reciprocal
from afterglow.ops.movement import Reshape
from afterglow.ops.reduction import ReduceMax, ReduceMin
from afterglow.support.errors import ModelError
from afterglow.types import DType
from afterglow.types import dtype as d

_PT2E = "quantized_decomposed"
_TORCHAO = "torchao"


def _number_or_value(n: TorchNode, name: str, dtype: DType) -> Value:
    """A scale or zero point: a number of the program, or a tensor with one element."""
    found = n.argument(name)
    if not isinstance(found, Value):
        return n.full(n.scalar(name), dtype)
    return as_dtype(n, n.emit(Reshape(()), found) if found.type.size == 1 else found, dtype)


def _bounded(n: TorchNode, x: Value) -> Value:
    """Integers within the bounds that the call names, which may be narrower than their type."""
    info = np.iinfo(x.type.dtype.numpy)
    for name, op, bound in (("quant_min", Max(), info.min), ("quant_max", Min(), info.max)):
        limit = n.argument(name)
        if limit is not None and int(n.scalar(name)) != bound:
            x = n.emit(op, x, n.full(int(n.scalar(name)), x.type.dtype))
    return x


def _nonzero(n: TorchNode, zero: Value | None, dtype: DType) -> Value | None:
    """Zero points as elements of a type; none if all of them are known to be 0."""
    if zero is None or zero.type.size == 0:
        return None
    known = n.value_if_known(zero)
    if known is not None and not known.any():
        return None
    return as_dtype(n, zero, dtype)


def _target(n: TorchNode, name: str = "dtype") -> DType:
    found = n.element_type(name)
    if found is None or not found.is_integer:
        raise ModelError(f"argument {name!r} must be a type of integers, it is {found}")
    return found


@aten(
    "quantize_per_tensor.default",
    "quantize_per_tensor.tensor",
    "quantize_per_tensor.tensor2",
    namespace=_PT2E,
)
def quantize_per_tensor(n: TorchNode) -> Value:
    """One scale for all."""
    x, dtype = as_dtype(n, n.value("input"), d.f32), _target(n)
    scale = _number_or_value(n, "scale", d.f32)
    zero = _nonzero(n, _number_or_value(n, "zero_point", d.i64), dtype)
    return _bounded(n, quantize(n, x, scale, zero, dtype=dtype))


@aten(
    "dequantize_per_tensor.default",
    "dequantize_per_tensor.tensor",
    "dequantize_per_tensor.tensor2",
    namespace=_PT2E,
)
def dequantize_per_tensor(n: TorchNode) -> Value:
    """One scale for all."""
    x = n.value("input")
    scale = _number_or_value(n, "scale", d.f32)
    zero = _nonzero(n, _number_or_value(n, "zero_point", d.i64), x.type.dtype)
    return dequantize(n, x, scale, zero, dtype=n.result_type())


@aten("quantize_per_channel.default", namespace=_PT2E)
def quantize_per_channel(n: TorchNode) -> Value:
    """A scale for each index of an axis."""
    x, dtype = as_dtype(n, n.value("input"), d.f32), _target(n)
    scale = as_dtype(n, n.value("scales"), d.f32)
    zero = _nonzero(n, n.optional("zero_points"), dtype)
    return _bounded(n, quantize(n, x, scale, zero, axis=n.size("axis"), dtype=dtype))


@aten("dequantize_per_channel.default", namespace=_PT2E)
def dequantize_per_channel(n: TorchNode) -> Value:
    """A scale for each index of an axis."""
    x, scale = n.value("input"), as_dtype(n, n.value("scales"), d.f32)
    zero = _nonzero(n, n.optional("zero_points"), x.type.dtype)
    return dequantize(n, x, scale, zero, axis=n.size("axis"), dtype=n.result_type())


@aten("quantize_affine.default", namespace=_TORCHAO)
def quantize_affine(n: TorchNode) -> Value:
    """A scale for each block."""
    x, dtype = n.value("input"), _target(n, "output_dtype")
    axis, size, shape = _blocks(n, x)
    x, scale = as_dtype(n, x, d.f32), as_dtype(n, n.value("scale"), d.f32)
    zero = _nonzero(n, n.optional("zero_point"), dtype)
    if n.value_if_known(scale) is None:
        return _quantized_now(n, x, (scale, zero), n.sizes("block_size"), dtype)
    scale, zero = _shaped(n, scale, shape), _if_shaped(n, zero, shape)
    return _bounded(n, quantize(n, x, scale, zero, axis=axis, dtype=dtype, block_size=size))


def _quantized_now(
    n: TorchNode,
    x: Value,
    parameters: tuple[Value, Value | None],
    sizes: Sequence[int],
    dtype: DType,
) -> Value:
    """By scales that are computed in the run, as PyTorch does: times their reciprocals.

    The largest element often lies half way between two integers, so that it matters.
    """
    counts = [extent // size for extent, size in zip(x.type.shape, sizes, strict=True)]
    apart = tuple(each for pair in zip(counts, sizes, strict=True) for each in pair)
    scales = tuple(each for count in counts for each in (count, 1))
    scale, zero = parameters
    inverse = n.emit(Reciprocal(), _shaped(n, scale, scales))
    y = n.emit(Round(), n.emit(Mul(), n.emit(Reshape(apart), x), inverse))
    if zero is not None:
        y = n.emit(Add(), y, as_dtype(n, _shaped(n, zero, scales), d.f32))
    y = n.emit(Clip(float(n.scalar("quant_min")), float(n.scalar("quant_max"))), y)
    return n.emit(Reshape(x.type.shape), as_dtype(n, y, dtype))


@aten("dequantize_affine.default", namespace=_TORCHAO)
def dequantize_affine(n: TorchNode) -> Value:
    """A scale for each block; integers of the program that have four bits are stored so."""
    x = n.value("input")
    axis, size, shape = _blocks(n, x)
    x = _in_four_bits(n, x)
    scale = as_dtype(n, _shaped(n, n.value("scale"), shape), d.f32)
    zero = _nonzero(n, _if_shaped(n, n.optional("zero_point"), shape), x.type.dtype)
    return dequantize(n, x, scale, zero, axis=axis, dtype=n.result_type(), block_size=size)


def _blocks(n: TorchNode, x: Value) -> tuple[int, int, tuple[int, ...]]:
    """The axis of the scales, the size of their blocks (0: an index each), and their shape."""
    sizes, shape = n.sizes("block_size"), x.type.shape
    if len(sizes) != len(shape) or not all(sizes):
        raise ModelError(f"blocks of {list(sizes)} do not make up {x.type}")
    counts = tuple(extent // size for extent, size in zip(shape, sizes, strict=True))
    several = [axis for axis, count in enumerate(counts) if count > 1]
    if not several:
        return 0, 0, ()
    if len(several) == 1 and sizes[several[0]] == 1:
        return several[0], 0, (counts[several[0]],)
    if all(size == 1 for size in sizes[:-1]):
        return len(shape) - 1, sizes[-1], counts
    raise n.fail(f"blocks of {list(sizes)} are not supported: only along the last axis")


def _shaped(n: TorchNode, x: Value, shape: tuple[int, ...]) -> Value:
    if x.type.size != math.prod(shape):
        raise ModelError(f"{x.type} does not have a number for each of {list(shape)} blocks")
    return x if x.type.shape == shape else n.emit(Reshape(shape), x)


def _if_shaped(n: TorchNode, x: Value | None, shape: tuple[int, ...]) -> Value | None:
    return None if x is None or x.type.size == 0 else _shaped(n, x, shape)


def _in_four_bits(n: TorchNode, x: Value) -> Value:
    """Known bytes that are all within four bits, in these."""
    bounds = (n.argument("quant_min"), n.argument("quant_max"))
    narrow = {(-8, 7): d.i4, (0, 15): d.u4}.get(bounds)
    known = None if narrow is None else n.value_if_known(x)
    if narrow is None or known is None:
        return x
    return n.constant(known.astype(narrow.numpy), x.name)


_BY_ROWS = ("quantize_per_token.default", "quantize_per_channel_group.default")
_BACK_BY_ROWS = ("dequantize_per_token.default", "dequantize_per_channel_group.default")


def _row_blocks(n: TorchNode, x: Value) -> tuple[int, tuple[int, ...]]:
    """The size of blocks along the last axis, a whole row unless one is given, and the scales'."""
    *rows, width = x.type.shape
    size = min(n.size("group_size"), width) if n.has("group_size") else width
    if size < 1 or width % size:
        raise ModelError(f"blocks of {size} do not make up {x.type}")
    return size, (*rows, width // size)


@aten(*_BY_ROWS, namespace=_PT2E)
def quantize_rows(n: TorchNode) -> Value:
    """A scale for each row, or for each group of a row."""
    x, dtype = as_dtype(n, n.value("input"), d.f32), _target(n)
    size, _ = _row_blocks(n, x)
    parameters = (
        as_dtype(n, n.value("scales"), d.f32),
        _nonzero(n, n.optional("zero_points"), dtype),
    )
    return _quantized_now(n, x, parameters, (*(1 for _ in x.type.shape[1:]), size), dtype)


@aten(*_BACK_BY_ROWS, namespace=_PT2E)
def dequantize_rows(n: TorchNode) -> Value:
    """A scale for each row, or for each group of a row."""
    x = n.value("input")
    size, shape = _row_blocks(n, x)
    x = _in_four_bits(n, x)
    scale = as_dtype(n, _shaped(n, n.value("scales"), shape), d.f32)
    zero = _nonzero(n, _if_shaped(n, n.optional("zero_points"), shape), x.type.dtype)
    axis = x.type.rank - 1
    return dequantize(n, x, scale, zero, axis=axis, dtype=n.result_type(), block_size=size)


@aten("choose_qparams.tensor", "choose_qparams_symmetric.tensor", namespace=_PT2E)
def choose_parameters(n: TorchNode) -> Sequence[Value]:
    """The scale and zero point for the range of x, which is made to hold 0."""
    x, least, most = n.value("input"), n.size("quant_min"), n.size("quant_max")
    axes, t = tuple(range(x.type.rank)), Arithmetic(n.builder, x)
    low = n.emit(Min(), n.emit(ReduceMin(axes, False), x), t.value(0.0))
    high = n.emit(Max(), n.emit(ReduceMax(axes, False), x), t.value(0.0))
    middle = None
    if n.proto.op_type.startswith("choose_qparams_symmetric"):
        high = n.emit(Max(), n.emit(Neg(), low), high)
        low = n.emit(Neg(), high)
        middle = 0 if _target(n).is_signed else (least + most + 1) // 2
    span = t.div(t.sub(high, low), float(most - least))
    scale = n.emit(Max(), span, t.value(float(n.scalar("eps"))))
    if middle is None:
        shift = t.sub(float(least), n.emit(Round(), t.div(low, scale)))
        zero = n.emit(Clip(float(least), float(most)), shift)
    else:
        zero = t.value(middle)
    found = zip((scale, zero), (n.result_type(0), n.result_type(1)), strict=True)
    return [as_dtype(n, n.emit(Reshape((1,)), each), dtype) for each, dtype in found]
