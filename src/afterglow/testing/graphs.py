"""Random graphs: a hypothesis strategy over ops that optimisations look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
from hypothesis import strategies as st

from afterglow.graph import Builder, Function, Op, Value
from afterglow.ops import activation, elementwise, functions
from afterglow.ops.conversion import Cast
from afterglow.ops.convolution import Conv
from afterglow.ops.linear import MatMul
from afterglow.ops.movement import Concat, Expand, Pad, Reshape, Slice, Transpose
from afterglow.ops.normalization import BatchNorm, LayerNorm
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.ops.reduction import ReduceMax, ReduceMean, ReduceSum
from afterglow.ops.softmax import Softmax
from afterglow.types import Array, TensorType
from afterglow.types.dtype import f32, f64
from afterglow.types.extent import (
    Dim,
    UndecidedExtentError,
    is_ranged,
    largest,
    smallest,
)
from afterglow.types.extent import ranged as ranged_by

Draw: TypeAlias = st.DrawFn
Step: TypeAlias = Callable[[Draw, Builder, list[Value]], Value]

_UNARY: list[Op] = [
    activation.Relu(),
    activation.Sigmoid(),
    activation.Clip(low=-0.5, high=0.75),
    activation.LeakyRelu(alpha=0.1),
    elementwise.Neg(),
    elementwise.Abs(),
    functions.Tanh(),
]
_BINARY: list[Op] = [elementwise.Add(), elementwise.Sub(), elementwise.Mul(), elementwise.Max()]
_MOST_ELEMENTS = 4096


def _one_of(draw: Draw, values: list[Value]) -> Value:
    return draw(st.sampled_from(values))


def _unary(draw: Draw, b: Builder, values: list[Value]) -> Value:
    return b.emit(draw(st.sampled_from(_UNARY)), _one_of(draw, values))


def _binary(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    partners = [v for v in values if v.type.shape == x.type.shape]
    pair = [x, draw(st.sampled_from(partners))]
    return b.emit(draw(st.sampled_from(_BINARY)), *draw(st.permutations(pair)))


def _with_constant(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    shape = [n if draw(st.booleans()) and not is_ranged(n) else 1 for n in x.type.shape]
    shape = shape[draw(st.integers(0, len(shape))) :]
    fill = draw(st.sampled_from([0.0, 1.0, -1.0, 0.5, None]))
    data = np.full(shape, fill) if fill is not None else _numbers(draw, shape)
    constant = b.constant(data.astype(np.float32))
    operands = draw(st.permutations([x, constant]))
    return b.emit(draw(st.sampled_from(_BINARY)), *operands)


def _numbers(draw: Draw, shape: list[int]) -> Array:
    return np.random.default_rng(draw(st.integers(0, 99))).uniform(-1, 1, shape)


def _transpose(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    return b.emit(Transpose(tuple(draw(st.permutations(range(x.type.rank))))), x)


def _reshape(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    flat: list[int] = []
    rest = x.type.size
    if is_ranged(rest):
        return b.emit(Reshape(_merged(draw, x.type.shape)), x)
    while rest > 1 and len(flat) < 3:
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        flat.append(draw(st.sampled_from(divisors)))
        rest //= flat[-1]
    return b.emit(Reshape((*flat, rest)), x)


def _merged(draw: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape in which neighbouring axes have become one."""
    first = draw(st.integers(0, len(shape) - 1))
    last = draw(st.integers(first, len(shape) - 1))
    return (*shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :])


def _concat(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, [v for v in values if v.type.rank])
    parts = [v for v in values if v.type.shape == x.type.shape]
    chosen = draw(st.lists(st.sampled_from(parts), min_size=1, max_size=3))
    return b.emit(Concat(draw(st.integers(0, x.type.rank - 1))), *chosen)


def _slice(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    starts, extents, steps = [], [], []
    for n in x.type.shape:
        step = draw(st.sampled_from([1, 1, 2]))
        start = draw(st.integers(0, smallest(n) - 1))
        most = (n - 1 - start) // step + 1
        starts.append(start)
        steps.append(step)
        part = draw(st.integers(1, smallest(most)))
        extents.append(most if is_ranged(n) and draw(st.booleans()) else part)
    return b.emit(Slice(tuple(starts), tuple(extents), tuple(steps)), x)


def _pad(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    counts = st.tuples(*[st.integers(0, 1)] * x.type.rank)
    return b.emit(Pad(draw(counts), draw(counts)), x)


def _expand(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, values)
    shape = tuple(draw(st.integers(1, 3)) if n == 1 else n for n in x.type.shape)
    return b.emit(Expand(shape), x)


def _reduction(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, [v for v in values if v.type.rank])
    axes = draw(st.sets(st.integers(0, x.type.rank - 1), min_size=1))
    cls = draw(st.sampled_from([ReduceSum, ReduceMean, ReduceMax]))
    return b.emit(cls(tuple(sorted(axes)), draw(st.booleans())), x)


def _softmax(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, [v for v in values if v.type.rank])
    return b.emit(Softmax(draw(st.integers(0, x.type.rank - 1))), x)


def _matmul(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, [v for v in values if v.type.rank >= 2 and not is_ranged(v.type.shape[-1])])
    weight = _numbers(draw, [x.type.shape[-1], draw(st.integers(1, 4))]).astype(np.float32)
    return b.emit(MatMul(), x, b.constant(weight))


def _layer_norm(draw: Draw, b: Builder, values: list[Value]) -> Value:
    x = _one_of(draw, [v for v in values if largest((1, *v.type.shape)[-1]) > 1])
    return b.emit(LayerNorm(-1, 1e-3), x)


def _cast(draw: Draw, b: Builder, values: list[Value]) -> Value:
    return b.emit(Cast(f32), b.emit(Cast(f64), _one_of(draw, values)))


def _channels_first(draw: Draw, b: Builder, values: list[Value]) -> Value:
    """What importers of NCHW models write: transposes around a channels-last op."""
    x = _one_of(draw, [v for v in values if v.type.rank == 4 and not is_ranged(v.type.shape[1])])
    inner = b.emit(Transpose((0, 2, 3, 1)), x)
    channels = x.type.shape[1]
    match draw(st.integers(0, 3)):
        case 0:
            inner = b.emit(MaxPool((2, 2), (1, 1), (1, 1, 0, 0), (1, 1), False), inner)
        case 1:
            inner = b.emit(AvgPool((2, 2), (1, 1), (0, 0, 1, 1), (1, 1), False, True), inner)
        case _:
            weight = _numbers(draw, [3, 2, 2, channels]).astype(np.float32)
            inner = b.emit(
                Conv((1, 1), (1, 0, 0, 1), (1, 1), 1), inner, b.constant(weight, "weight")
            )
    return b.emit(Transpose((0, 3, 1, 2)), inner)


def _batch_norm(draw: Draw, b: Builder, values: list[Value]) -> Value:
    axis = draw(st.sampled_from([1, 3]))
    x = _one_of(draw, [v for v in values if v.type.rank == 4 and not is_ranged(v.type.shape[axis])])
    rows = [_numbers(draw, [x.type.shape[axis]]).astype(np.float32) for _ in range(4)]
    rows[3] = np.abs(rows[3]) + np.float32(0.5)
    return b.emit(BatchNorm(1e-5, axis), x, *(b.constant(row, "bn") for row in rows))


_STEPS: list[Step] = [
    _unary,
    _binary,
    _with_constant,
    _transpose,
    _reshape,
    _concat,
    _slice,
    _pad,
    _expand,
    _reduction,
    _softmax,
    _matmul,
    _layer_norm,
    _cast,
    _channels_first,
    _batch_norm,
]


def _ranged(draw: Draw, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape in which some extents are dimensions; every second one is exact, for weights."""
    return tuple(
        n if axis % 2 or not draw(st.booleans()) else ranged_by(Dim(f"d{n}", 1, n + 3))
        for axis, n in enumerate(shape)
    )


@st.composite
def functions_of_floats(draw: Draw, most_steps: int = 12, *, ranged: bool = False) -> Function:
    """A random valid function on float32 tensors, with one to three outputs; some axes ranged."""
    f = Function("main")
    b = Builder(f)
    extents = st.lists(st.integers(1, 4), min_size=1, max_size=4)
    shapes = [(1, 3, 4, 4), *draw(st.lists(extents, max_size=1))]
    values: list[Value] = [
        f.input(f"x{i}", TensorType(f32, _ranged(draw, shape) if ranged else tuple(shape)))
        for i, shape in enumerate(shapes)
    ]
    for _ in range(draw(st.integers(1, most_steps))):
        try:
            made = draw(st.sampled_from(_STEPS))(draw, b, values)
        except UndecidedExtentError:
            continue
        if smallest(made.type.size) > 0 and largest(made.type.size) <= _MOST_ELEMENTS:
            values.append(made)
    for index in range(draw(st.integers(1, 3))):
        f.output(f"y{index}", draw(st.sampled_from(values)))
    return f
