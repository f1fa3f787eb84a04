"""Grow islands of integers: quantize before moving, pooling and joining, dequantize after it."""

from __future__ import annotations

import math

import numpy as np

from afterglow.graph import Builder, Constant, Node, Op, Value
from afterglow.ops.activation import Clip, Relu
from afterglow.ops.image import Interpolation, Resize
from afterglow.ops.movement import Concat, Reshape, Slice, Transpose
from afterglow.ops.pooling import MaxPool
from afterglow.ops.quantization import DequantizeLinear, QuantizeLinear
from afterglow.ops.shuffle import ChannelShuffle, DepthToSpace, SpaceToDepth
from afterglow.passes import RewritePass, rewrite
from afterglow.transforms.matching.quantized import STORED_TYPES, Quantized, zero_point_of
from afterglow.transforms.matching.values import has_one_use

LEAST_SCALE, LARGEST_SCALE = 2.0**-100, 2.0**100
"""Scales between which quotients of small multiples are neither denormal nor infinite."""

MOVES = (Reshape, Transpose, Slice, ChannelShuffle, DepthToSpace, SpaceToDepth)
"""Ops that move the elements of their only operand."""


def is_move(op: Op) -> bool:
    """Whether an op moves the elements of its only operand, or repeats them."""
    if isinstance(op, Resize):
        return op.is_convex and op.mode is Interpolation.NEAREST
    return isinstance(op, MOVES)


@rewrite(QuantizeLinear)
def cancel_quantization(node: Node, b: Builder) -> Value | None:
    """quantize(dequantize(x, s, z), s, z)  ->  x:  a multiple of s is as far from z as before."""
    match node:
        case Node(
            QuantizeLinear(dtype=dtype, block_size=0), [Value() as x, Constant() as scale, *rest]
        ):
            source = Quantized.of(x, STORED_TYPES)
            if source is None or source.stored.type.dtype is not dtype:
                return None
            same = source.has_one_scale and np.array_equal(source.scale.data, scale.data)
            ordinary = same and bool(LEAST_SCALE < abs(source.scale.data) < LARGEST_SCALE)
            if ordinary and zero_point_of(rest[0] if rest else None) == source.zero_point:
                return source.stored
    return None


@rewrite(QuantizeLinear)
def quantize_before_moving(node: Node, b: Builder) -> Value | None:
    """quantize(move(x), s, z)  ->  move(quantize(x, s, z)),  s one number: bytes are moved.

    Not if each of several parts of x would quantize all of it.
    """
    match node:
        case Node(
            QuantizeLinear(block_size=0) as op,
            [Value(Node(move, [Value() as x])) as y, *parameters],
        ) if (
            is_move(move)
            and has_one_use(y)
            and all(p is None or p.type.rank == 0 for p in parameters)
        ):
            is_part = isinstance(move, Slice) and x.use_count > 1
            if not is_part or Quantized.of(x, STORED_TYPES) is not None:
                return b.emit(move, b.emit(op, x, *parameters))
    return None


@rewrite(*MOVES, Resize)
def dequantize_after_moving(node: Node, b: Builder) -> Value | None:
    """move(dequantize(x, s, z))  ->  dequantize(move(x), s, z),  s one number."""
    match node:
        case Node(
            move,
            [Value(Node(DequantizeLinear(block_size=0) as op, [Value() as x, *parameters])) as y],
        ) if (
            is_move(move)
            and has_one_use(y)
            and all(p is None or p.type.rank == 0 for p in parameters)
        ):
            return b.emit(op, b.emit(move, x), *parameters)
    return None


@rewrite(MaxPool)
def dequantize_after_pooling(node: Node, b: Builder) -> Value | None:
    """max_pool(dequantize(x, s, z))  ->  dequantize(max_pool(x), s, z),  s > 0 one number."""
    match node:
        case Node(MaxPool() as pool, [Value(Node(op, [_, *parameters])) as y]) if has_one_use(y):
            source = Quantized.of(y, STORED_TYPES)
            if source is None or not source.has_one_scale or not source.scale.data > 0:
                return None
            return b.emit(op, b.emit(pool, source.stored), *parameters)
    return None


@rewrite(QuantizeLinear)
def quantize_before_joining(node: Node, b: Builder) -> Value | None:
    """quantize(concat(x, y), s, z)  ->  concat(quantize(x, s, z), quantize(y, s, z)).

    Some operand must be bytes already: they are joined as bytes, or scaled once more.
    """
    match node:
        case Node(
            QuantizeLinear(block_size=0) as op,
            [Value(Node(Concat() as concat, parts)) as y, *parameters],
        ) if has_one_use(y) and all(p is None or p.type.rank == 0 for p in parameters):
            if any(Quantized.of(part, STORED_TYPES) for part in parts if part is not None):
                return b.emit(concat, *(b.emit(op, part, *parameters) for part in parts))
    return None


@rewrite(QuantizeLinear)
def saturate_instead(node: Node, b: Builder) -> Value | None:
    """quantize(clip(x, low, high), s, z)  ->  quantize(x, s, z),  if integers reach no further."""
    match node:
        case Node(
            QuantizeLinear(dtype=dtype, block_size=0) as op,
            [Value(Node(Clip() | Relu() as clip, [Value() as x])) as y, Constant() as scale, *rest],
        ) if has_one_use(y) and dtype.is_integer and scale.type.rank == 0 and scale.data > 0:
            zero_point = zero_point_of(rest[0] if rest else None)
            if zero_point is None:
                return None
            low, high = (0.0, None) if isinstance(clip, Relu) else (clip.low, clip.high)
            least = -math.inf if low is None else np.rint(np.float32(low) / scale.data)
            most = math.inf if high is None else np.rint(np.float32(high) / scale.data)
            lowest, highest = dtype.limits
            if least + zero_point <= lowest and most + zero_point >= highest:
                return b.emit(op, x, scale, *rest)
    return None


INTEGER_ISLANDS = RewritePass(
    "integer-islands",
    (
        cancel_quantization,
        quantize_before_moving,
        dequantize_after_moving,
        dequantize_after_pooling,
        quantize_before_joining,
        saturate_instead,
    ),
)
