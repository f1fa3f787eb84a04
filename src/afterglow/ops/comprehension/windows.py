"""Reductions over windows, `x[i + 2*k]`, as convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from afterglow.graph import Value
from afterglow.ops.comprehension.terms import Terms, factors_of
from afterglow.ops.comprehension.tree import Access, Affine, Expression, Reduction
from afterglow.ops.convolution import Conv
from afterglow.ops.einsum import Labels, Term
from afterglow.ops.movement import Reshape, Slice
from afterglow.ops.pooling import AvgPool, MaxPool
from afterglow.support.lazy_dataclass import dataclass

_MOST_SPATIAL = 3


@dataclass(frozen=True)
class _Window:
    """An axis of a tensor that a free index and one of a reduction share."""

    free: str
    bound: str
    stride: int
    dilation: int


@dataclass(frozen=True)
class _Windowed:
    """A tensor of which windows are read: its part that they see, the axes named."""

    term: Term
    windows: tuple[_Window, ...]

    @property
    def free(self) -> Labels:
        """The indices of the windows' places; the axes have their names."""
        return tuple(window.free for window in self.windows)

    @property
    def bound(self) -> Labels:
        """The indices that run within the windows."""
        return tuple(window.bound for window in self.windows)

    @property
    def singles(self) -> Labels:
        """The other axes."""
        return tuple(label for label in self.term.labels if label not in self.free)

    @property
    def strides(self) -> tuple[int, ...]:
        """Steps between windows."""
        return tuple(window.stride for window in self.windows)

    @property
    def dilations(self) -> tuple[int, ...]:
        """Steps within windows."""
        return tuple(window.dilation for window in self.windows)

    @property
    def pads(self) -> tuple[int, ...]:
        """None: all windows are inside."""
        return (0,) * (2 * len(self.windows))


def as_convolution(lowering: Terms, value: Reduction) -> Term | None:
    """A sum of products of windows and weights; None if it is something else."""
    factors = list(factors_of(value.body))
    images = [factor for factor in factors if _is_windowed(lowering, factor)]
    if value.kind not in ("sum", "mean") or len(images) != 1 or not isinstance(images[0], Access):
        return None
    others = [factor for factor in factors if factor is not images[0]]
    weights = [factor for factor in others if lowering.depends(factor, value.indices)]
    image = _windowed(lowering, images[0], value.indices)
    if image is None or not weights:
        return None
    weight = reduce(lowering.multiplied, map(lowering.term, weights))
    if not {*image.bound} <= {*weight.labels} or {*image.free} & {*weight.labels}:
        return None
    result = lowering.meant(value, _convolved(lowering, value.indices, image, weight))
    rest = (lowering.term(factor) for factor in others if factor not in weights)
    return reduce(lowering.multiplied, rest, result)


def as_pool(lowering: Terms, value: Reduction) -> Term | None:
    """The mean or the maximum of windows, channels last; None if it is something else."""
    if value.kind not in ("max", "mean") or not isinstance(value.body, Access):
        return None
    image = _windowed(lowering, value.body, value.indices)
    if image is None or {*image.bound} != {*value.indices} - {*lowering.fixed}:
        return None
    if image.term.labels[-1] in image.free or not image.term.value.type.dtype.is_float:
        return None
    kernel = tuple(lowering.ranges[name].extent for name in image.bound)
    kind = MaxPool if value.kind == "max" else AvgPool
    pool = kind(kernel, image.strides, image.pads, image.dilations)
    batch, channels = image.singles[:-1], image.singles[-1:]
    x = _flattened(lowering, image.term, batch, *image.free, channels)
    labels = batch + image.free + channels
    return _named(lowering, Term(lowering.b.emit(pool, x), ()), labels)


def _is_windowed(lowering: Terms, factor: Expression) -> bool:
    """Whether a factor is anything but a term with an axis for each index."""
    if not isinstance(factor, Access):
        return False
    return any(len(lowering.affine(affine).terms) > 1 for affine in factor.indices)


def _windowed(lowering: Terms, access: Access, reduced: Sequence[str]) -> _Windowed | None:
    """What an access reads by windows; None if two indices share an axis in another way."""
    windows: list[_Window] = []
    labels: list[str] = []
    indices = [lowering.affine(affine) for affine in access.indices]
    for affine in indices:
        match sorted(affine.terms, key=lambda term: term[0] in reduced):
            case [(free, stride), (bound, dilation)] if free not in reduced and bound in reduced:
                windows.append(_Window(free, bound, stride, dilation))
                labels.append(free)
            case [(name, _)]:
                labels.append(name)
            case [_, *_]:
                return None
    named = [*labels, *(window.bound for window in windows)]
    is_plain = all(w.stride > 0 and w.dilation > 0 for w in windows)
    if len({*named}) < len(named) or not is_plain or len(windows) > _MOST_SPATIAL:
        return None
    value = _seen(lowering, lowering.tensors[access.tensor], indices)
    return _Windowed(Term(value, tuple(labels)), tuple(windows))


def _seen(lowering: Terms, value: Value, indices: Sequence[Affine]) -> Value:
    """The part of a tensor that windows see, without axes of which one element is read."""
    axes = [_seen_axis(lowering, affine) for affine in indices]
    if axes != [(0, extent, 1) for extent in value.type.shape]:
        value = lowering.b.emit(Slice(*zip(*axes, strict=True)), value)
    kept = tuple(n for n, affine in zip(value.type.shape, indices, strict=True) if affine.terms)
    return value if kept == value.type.shape else lowering.b.emit(Reshape(kept), value)


def _seen_axis(lowering: Terms, affine: Affine) -> tuple[int, int, int]:
    """The first element along an axis, the number of elements, and the step between them."""
    runs = [(lowering.ranges[name], factor) for name, factor in affine.terms]
    start = affine.constant + sum(factor * run.first for run, factor in runs)
    if len(runs) == 1:
        return start, runs[0][0].extent, runs[0][1]
    return start, 1 + sum(factor * (run.extent - 1) for run, factor in runs), 1


def _convolved(lowering: Terms, reduced: Sequence[str], image: _Windowed, weight: Term) -> Term:
    """The convolution of windows with a weight, whose shared free indices are groups."""
    b, seen = lowering.b, {*image.term.labels, *image.bound}
    x = image.term.summed(b, {n for n in image.singles if n in reduced and n not in weight.labels})
    weight = weight.summed(b, {n for n in weight.labels if n in reduced and n not in seen})
    singles = [name for name in x.labels if name not in image.free]
    channels = tuple(name for name in singles if name in reduced)
    groups = tuple(name for name in singles if name in weight.labels and name not in reduced)
    batch = tuple(name for name in singles if name not in channels + groups)
    results = tuple(name for name in weight.labels if name not in seen)
    count = math.prod(lowering.ranges[name].extent for name in groups)
    conv = Conv(image.strides, image.pads, image.dilations, count)
    images = _flattened(lowering, x, batch, *image.free, groups + channels)
    rows = _flattened(lowering, weight, groups + results, *image.bound, channels)
    result = Term(b.emit(conv, images, rows), ())
    return _named(lowering, result, batch + image.free + groups + results)


def _flattened(lowering: Terms, term: Term, *axes: str | Labels) -> Value:
    """A term with these axes: a tuple of labels is one axis for all of them."""
    groups = [axis if isinstance(axis, tuple) else (axis,) for axis in axes]
    ordered = term.ordered(lowering.b, tuple(name for group in groups for name in group))
    extents = ordered.extents
    shape = tuple(math.prod(extents[name] for name in group) for group in groups)
    if shape == ordered.value.type.shape:
        return ordered.value
    return lowering.b.emit(Reshape(shape), ordered.value)


def _named(lowering: Terms, result: Term, labels: Labels) -> Term:
    """A result whose axes are split into those of the labels."""
    shape = tuple(lowering.ranges[name].extent for name in labels)
    value = result.value
    if shape != value.type.shape:
        value = lowering.b.emit(Reshape(shape), value)
    return Term(value, labels)
