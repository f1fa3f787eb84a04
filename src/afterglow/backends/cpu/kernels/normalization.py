"""Normalizations over lines: mean and mean square in two walks, then the results in a third."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add

from afterglow.backends.broadcast import Strides, strides_within
from afterglow.backends.cpu.kernels.algorithm import Algorithm
from afterglow.backends.cpu.kernels.group_norm import has_small_groups, small_groups_algorithm
from afterglow.backends.cpu.kernels.table import DIRECT, algorithms
from afterglow.backends.cpu.llvm.emitter import Value, fma, sqrt
from afterglow.backends.cpu.micro.access import (
    Reader,
    open_sink,
    open_source,
    placed_sink,
    placed_source,
)
from afterglow.backends.cpu.micro.cost import NORMALIZED_ELEMENT, plain_cost, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelRequest, Phase
from afterglow.backends.cpu.micro.lanes import full_lanes
from afterglow.backends.cpu.micro.layout import LineLayout, lay_out
from afterglow.backends.cpu.micro.operand_cache import cache_for, cached, must_compute
from afterglow.backends.cpu.micro.reduction_line import Position
from afterglow.backends.cpu.micro.reduction_lines import (
    ReductionLines,
    arithmetic_type,
    lanes_of,
)
from afterglow.backends.cpu.micro.rows import Rows
from afterglow.backends.cpu.micro.staged import (
    Fold,
    FoldStages,
    Results,
    staged_needs,
    write_staged,
)
from afterglow.ops.normalization import GroupNorm, LayerNorm, RMSNorm
from afterglow.support.lazy_dataclass import dataclass

SIDE = 2
"""Vectors of lines side by side."""

Place = Callable[[Strides], Strides]
"""From strides in the operand's shape to strides in the shape that is walked."""


@dataclass(frozen=True)
class Norm:
    """What is normalized: lines along `axes` of a shape; `place` says how that differs from x's."""

    shape: tuple[int, ...]
    axes: tuple[int, ...]
    epsilon: float
    is_centred: bool
    place: Place = lambda strides: strides


@dataclass(frozen=True)
class Parameters:
    """What the results are multiplied by, and what is added to them."""

    scale: Reader | None
    bias: Reader | None

    def applied(self, position: Position, x: Value) -> Value:
        """x scale + bias."""
        if self.scale is None:
            return x if self.bias is None else x + position.load(self.bias)
        scale = position.load(self.scale)
        return x * scale if self.bias is None else fma(x, scale, position.load(self.bias))


@algorithms(LayerNorm, RMSNorm, fuses=("x",))
def trailing_norm(r: KernelRequest) -> list[Algorithm]:
    """A normalization over the last axes."""
    op, x, parameters = r.step.op, r.step.required[0], r.step.ins[1:]
    assert isinstance(op, LayerNorm | RMSNorm)
    shape = x.type.shape
    axes = tuple(range(op.axis % len(shape), len(shape)))
    strides = [() if b is None else strides_within(b, shape) for b in parameters]
    return [_algorithm(r, Norm(shape, axes, op.epsilon, isinstance(op, LayerNorm)), strides)]


@algorithms(GroupNorm)
def group_norm(r: KernelRequest) -> list[Algorithm]:
    """A normalization over groups of channels: they become an axis."""
    if has_small_groups(r.step, r.target):
        return [small_groups_algorithm(r)]
    op, x, parameters = r.step.op, r.step.required[0], r.step.ins[1:]
    assert isinstance(op, GroupNorm)
    shape = x.type.shape
    axis = op.axis % len(shape)
    size = shape[axis] // op.groups

    def place(strides: Strides) -> Strides:
        return (*strides[:axis], strides[axis] * size, *strides[axis:])

    grouped = (*shape[:axis], op.groups, size, *shape[axis + 1 :])
    axes = tuple(a for a in range(1, len(grouped)) if a != axis)
    strides = [place(strides_within(b, shape, axis)) for b in parameters if b is not None]
    return [_algorithm(r, Norm(grouped, axes, op.epsilon, True, place), strides)]


def _algorithm(r: KernelRequest, norm: Norm, parameters: Sequence[Strides]) -> Algorithm:
    """`parameters` are the strides of scale and bias in the norm's shape; none if they lack."""
    x = r.step.required[0]
    dtype = arithmetic_type(x.type.dtype)
    layout = _layout(r, norm, [s for s in parameters if s], full_lanes(r.target, dtype))
    lines = ReductionLines(layout, dtype, lanes_of(r.target, dtype, layout), SIDE)
    folds = 2 if norm.is_centred else 1
    work = work_of(x.type.size, NORMALIZED_ELEMENT)

    def write(k: Kernel) -> None:
        write_staged(k, lines, work, folds, lambda p, lines: _stages(p, lines, norm))

    needs = staged_needs(lines, folds, keeps=must_compute(r))
    return Algorithm(DIRECT, plain_cost(r.job), write, needs)


def _layout(k: KernelRequest, norm: Norm, parameters: Sequence[Strides], lanes: int) -> LineLayout:
    source = {b: norm.place(s) for b, s in placed_source(k).items()}
    sink = {b: norm.place(s) for b, s in placed_sink(k).items()}
    return lay_out(norm.shape, norm.axes, source, sink, lanes, parameters)


def _parameters(p: Phase, layout: LineLayout) -> Parameters:
    strides = iter(layout.others)
    scale, bias, *_ = [
        *(
            None if b is None else Rows(p.pointer(b), layout.shape, next(strides))
            for b in p.step.ins[1:]
        ),
        None,
        None,
    ]
    return Parameters(scale, bias)


def _stages(p: Phase, lines: ReductionLines, norm: Norm) -> FoldStages:
    """The mean, then the mean square of what differs from it, then the results."""
    layout = lines.layout
    x = cached(p, open_source(p, layout.shape, layout.source), cache_for(p, lines))
    parameters = _parameters(p, layout)
    sink = open_sink(p, layout.shape, layout.sink)

    def centred(position: Position, results: Results) -> Value:
        return (
            x.again(position) - results[0][position.which] if norm.is_centred else x.again(position)
        )

    def square(position: Position, results: Results) -> Value:
        value = centred(position, results) if norm.is_centred else x.first(position)
        return value * value

    def put(position: Position, results: Results) -> None:
        scaled = centred(position, results) * results[-1][position.which]
        position.put(sink, parameters.applied(position, scaled))

    mean = Fold(
        0, lambda position, _: x.first(position), add, lambda total, _, __: total / layout.length
    )
    factor = Fold(
        0, square, add, lambda total, _, __: 1.0 / sqrt(total / layout.length + norm.epsilon)
    )
    return FoldStages((mean, factor) if norm.is_centred else (factor,), put)
