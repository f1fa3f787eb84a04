"""Ops that move elements: reshape, transpose, expand, concat, slice, pad, tile."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np

from afterglow.graph import Band, Builder, Cut, Gradients, Op, Value, op
from afterglow.graph.band import with_extent
from afterglow.graph.op import aligned_axis
from afterglow.instr import Buffer, ProgramBuilder
from afterglow.instr.overlap import slabs_around
from afterglow.ops.elementwise import Sub
from afterglow.ops.fill import Fill
from afterglow.ops.rules import (
    normal_axis,
    require,
    require_rank,
    require_same_dtype,
    same_extents,
)
from afterglow.types import Array, TensorType
from afterglow.types.dtype import string
from afterglow.types.extent import is_ranged, undecided


def taken(entries: Sequence[int], perm: Sequence[int]) -> tuple[int, ...]:
    """What is said of each axis, after the axes were permuted."""
    return tuple(entries[axis] for axis in perm)


class Movement(Op):
    """Base: data movement, the elements themselves do not change."""

    moves_only = True


@op("reshape")
class Reshape(Movement):
    """The same elements in the same order, with another shape."""

    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The given shape, which must hold as many elements."""
        require(
            all(extent >= 0 for extent in self.shape) and math.prod(self.shape) == x.size,
            f"{x} has {x.size} elements, shape {self.shape} does not hold as many",
        )
        return x.with_shape(self.shape)

    def evaluate(self, x: Array) -> Array:
        """NumPy's reshape."""
        return x.reshape(self.shape)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Back to the shape of x."""
        return (b.emit(Reshape(x.type.shape), grad),)

    def select(self, p: ProgramBuilder, out: Buffer, x: Buffer) -> None:
        """A copy between equal layouts, which copy elimination turns into a view."""
        p.copy(out, p.reshaped(x, out.type))

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """From the axis of x with as many elements before it, if the part ends where they end."""
        (x,) = self.required_of(operands)
        before = math.prod(result.shape[: cut.axis])
        axes = [axis for axis in range(x.rank) if math.prod(x.shape[:axis]) == before]
        if not axes or 0 in result.shape:
            return None
        inner = math.prod(result.shape[cut.axis + 1 :])
        start, stop = cut.start * inner, cut.stop * inner
        step = math.prod(x.shape[axes[-1] + 1 :])
        if start % step or stop % step:
            return None
        shape = with_extent(self.shape, cut.axis, cut.extent)
        return Band(Reshape(shape), (Cut(axes[-1], start // step, stop // step),))


@op("transpose")
class Transpose(Movement):
    """x with permuted axes: axis i of the result is axis perm[i] of x."""

    perm: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The extents in that order; a quantized axis moves along."""
        require(
            sorted(self.perm) == [*range(x.rank)],
            f"perm {self.perm} does not order the {x.rank} axes of {x}",
        )
        result = TensorType(x.dtype, taken(x.shape, self.perm))
        if x.quantization is None or x.quantization.axis is None:
            return result.quantized(x.quantization)
        axis = self.perm.index(x.quantization.axis)
        return result.quantized(replace(x.quantization, axis=axis))

    def evaluate(self, x: Array) -> Array:
        """NumPy's transpose."""
        return x.transpose(self.perm)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """The axes back at their places."""
        return (b.emit(Transpose(tuple(map(self.perm.index, range(x.type.rank)))), grad),)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Along the axis of x that the axis was."""
        return Band(self, (replace(cut, axis=self.perm[cut.axis]),))


@op("expand")
class Expand(Movement):
    """x repeated along axes of extent 1 and new leading axes, as NumPy broadcasts."""

    shape: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The given shape, to which x must broadcast."""
        tail = self.shape[len(self.shape) - x.rank :]
        fits = x.rank <= len(self.shape) and all(
            extent in (1, wanted) for extent, wanted in zip(x.shape, tail, strict=True)
        )
        require(fits, f"{x} does not broadcast to shape {self.shape}")
        return x.with_shape(self.shape)

    def evaluate(self, x: Array) -> Array:
        """NumPy's broadcast_to."""
        return np.broadcast_to(x, self.shape)

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """As it is: it is summed over the axes along which x is repeated."""
        return (grad,)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """From the same part of x, or from the one element that is repeated."""
        (x,) = self.required_of(operands)
        axis = aligned_axis(cut.axis, result, x)
        part = None if axis is None else replace(cut, axis=axis)
        return Band(Expand(with_extent(self.shape, cut.axis, cut.extent)), (part,))

    def permuted(self, perm: tuple[int, ...]) -> Expand:
        """The extents in the new order."""
        return Expand(taken(self.shape, perm))


@op("concat")
class Concat(Movement):
    """The operands concatenated along an axis."""

    axis: int

    def infer(self, *parts: TensorType) -> TensorType:
        """The shape of any part, but along the axis the sum."""
        require(bool(parts), "there must be at least one part")
        first = parts[0]
        axis = normal_axis(self.axis, first, "part 0")
        for index, part in enumerate(parts):
            require_same_dtype(**{"part 0": first, f"part {index}": part})
            require_rank(first.rank, **{f"part {index}": part})
            what = f"parts must differ along axis {axis} only: part 0 is {first}, "
            what += f"part {index} is {part}"
            own, wanted = ((*t.shape[:axis], *t.shape[axis + 1 :]) for t in (part, first))
            same = same_extents(own, wanted, what) and part.quantization == first.quantization
            require(same, what)
        extent = sum(part.shape[axis] for part in parts)
        return first.with_shape((*first.shape[:axis], extent, *first.shape[axis + 1 :]))

    def evaluate(self, *parts: Array) -> Array:
        """NumPy's concatenate."""
        return np.concatenate(parts, self.axis)

    def gradient(self, b: Builder, out: Value, grad: Value, *parts: Value) -> Gradients:
        """Each part's own slice."""
        axis, start = normal_axis(self.axis, grad.type), 0
        found = []
        for part in parts:
            extent = part.type.shape[axis]
            found.append(b.emit(slice_axis(grad.type, axis, start, extent), grad))
            start += extent
        return tuple(found)

    def select(self, p: ProgramBuilder, out: Buffer, *parts: Buffer) -> None:
        """Copy each part into its window of the result: no kernel needed."""
        axis, start = self.axis % out.type.rank, 0
        for part in parts:
            starts = tuple(start if index == axis else 0 for index in range(out.type.rank))
            p.copy(p.window(out, starts, part.type.shape), part)
            start += part.type.shape[axis]

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """Along any other axis, from the same part of each."""
        return None if cut.axis == self.axis % result.rank else Band(self, (cut,) * len(operands))

    def permuted(self, perm: tuple[int, ...]) -> Concat:
        """Along the same axis at its new place."""
        return Concat(perm.index(self.axis % len(perm)))


@op("slice")
class Slice(Movement):
    """A strided slice: along each axis, element i of the result is element start + i * step of x.

    Steps may be negative. `extents` is the shape of the result.
    """

    starts: tuple[int, ...]
    extents: tuple[int, ...]
    steps: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The extents; every element asked for must be there."""
        for name in ("starts", "extents", "steps"):
            count = len(getattr(self, name))
            require(count == x.rank, f"{name} must have one entry per axis of {x}, got {count}")
        require(0 not in self.steps, f"steps must not be 0, got {self.steps}")
        require(all(extent >= 0 for extent in self.extents), "extents must not be negative")
        for axis, (start, extent, step) in enumerate(
            zip(self.starts, self.extents, self.steps, strict=True)
        ):
            last = start + (extent - 1) * step
            require(
                _lies_within(start, extent, step, x.shape[axis]),
                f"elements {start} to {last} along axis {axis} are not all in {x}",
            )
        return x.with_shape(self.extents)

    def evaluate(self, x: Array) -> Array:
        """A basic index."""
        return x[
            tuple(_slice(*axis) for axis in zip(self.starts, self.extents, self.steps, strict=True))
        ]

    def gradient(self, b: Builder, out: Value, grad: Value, x: Value) -> Gradients:
        """Each element back at its place, and zeros around and between them."""
        axes = list(zip(self.starts, self.extents, self.steps, strict=True))
        if any(step < 0 for step in self.steps):
            firsts = tuple(extent - 1 if step < 0 else 0 for _, extent, step in axes)
            signs = tuple(-1 if step < 0 else 1 for step in self.steps)
            grad = b.emit(Slice(firsts, self.extents, signs), grad)
        apart = with_zeros_between(b, grad, tuple(map(abs, self.steps)))
        before = tuple(min(start, start + (extent - 1) * step) for start, extent, step in axes)
        ends = map(sum, zip(before, apart.type.shape, strict=True))
        after = tuple(n - end for n, end in zip(x.type.shape, ends, strict=True))
        return (b.emit(Pad(before, after), apart),)

    def columns(self, x: TensorType) -> slice | None:
        """The neighbouring places along the last axis that it takes; None if it does more."""
        if self.extents[:-1] != x.shape[:-1] or self.steps[-1:] != (1,):
            return None
        whole = set(self.starts[:-1]) <= {0} and set(self.steps[:-1]) <= {1}
        return slice(self.starts[-1], self.starts[-1] + self.extents[-1]) if whole else None

    def select(self, p: ProgramBuilder, out: Buffer, x: Buffer) -> None:
        """Copy the window of the operand: no kernel needed."""
        p.copy(out, p.window(x, self.starts, self.extents, self.steps))

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """From the first to the last element of x that the part has, in the same steps."""
        axis, step = cut.axis, self.steps[cut.axis]
        ends = [self.starts[axis] + index * step for index in (cut.start, cut.stop - 1)]
        low, high = min(ends), max(ends)
        op = Slice(
            with_extent(self.starts, axis, ends[0] - low),
            with_extent(self.extents, axis, cut.extent),
            self.steps,
        )
        return Band(op, (Cut(axis, low, high + 1),))

    def permuted(self, perm: tuple[int, ...]) -> Slice:
        """The entries in the new order."""
        return Slice(taken(self.starts, perm), taken(self.extents, perm), taken(self.steps, perm))


def _lies_within(start: int, extent: int, step: int, whole: int) -> bool:
    """Whether a slice takes only what is there; in some runs, it may take nothing."""
    if extent == 0:
        return True
    last = start + (extent - 1) * step
    low, high = (start, last) if step > 0 else (last, start)
    return low >= 0 and high < whole


def _slice(start: int, extent: int, step: int) -> slice:
    if extent == 0:
        return slice(0, 0)
    stop = start + extent * step
    return slice(start, stop if stop >= 0 else None, step)


def with_zeros_between(b: Builder, x: Value, steps: Sequence[int]) -> Value:
    """x with zeros between neighbours, so that its elements are `steps` apart along each axis."""
    if all(step == 1 for step in steps):
        return x
    split: list[int] = []
    after: list[int] = []
    for extent, step in zip(x.type.shape, steps, strict=True):
        split += (extent,) if step == 1 else (extent, 1)
        after += (0,) if step == 1 else (0, step - 1)
    padded = b.emit(Pad((0,) * len(split), tuple(after)), b.emit(Reshape(tuple(split)), x))
    longer = tuple(extent * step for extent, step in zip(x.type.shape, steps, strict=True))
    kept = tuple(n - step + 1 for n, step in zip(longer, steps, strict=True))
    whole = b.emit(Reshape(longer), padded)
    return b.emit(Slice((0,) * len(kept), kept, (1,) * len(kept)), whole)


def slice_axis(x: TensorType, axis: int, start: int, extent: int, step: int = 1) -> Slice:
    """The op that slices x along one axis."""
    require(-x.rank <= axis < x.rank, f"{x} has no axis {axis} to slice")
    starts, extents, steps = [0] * x.rank, [*x.shape], [1] * x.rank
    starts[axis], extents[axis], steps[axis] = start, extent, step
    return Slice(tuple(starts), tuple(extents), tuple(steps))


def flip(x: TensorType, axis: int) -> Slice:
    """The op that reverses x along one axis."""
    return slice_axis(x, axis, max(x.shape[axis] - 1, 0), x.shape[axis], -1)


MOST_RUNS = 16
"""Repetitions of x along an axis that a pad writes one by one; more are a tile."""


class PadMode(Enum):
    """What is put around a tensor."""

    CONSTANT = "constant"
    REFLECT = "reflect"
    EDGE = "edge"
    WRAP = "wrap"


@op("pad")
class Pad(Movement):
    """x padded with `value` (0 if not given), or with copies of its own elements.

    Reflect mirrors without repeating the border, edge repeats it, wrap starts over.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    mode: PadMode = PadMode.CONSTANT

    def infer(self, x: TensorType, value: TensorType | None = None) -> TensorType:
        """The extents plus what is added."""
        for name, counts in (("before", self.before), ("after", self.after)):
            require(len(counts) == x.rank, f"{name} must have one entry per axis of {x}")
            require(all(count >= 0 for count in counts), f"{name} must not be negative: {counts}")
        if value is not None:
            require_same_dtype(x=x, value=value)
            require_rank(0, value=value)
        shape = tuple(map(sum, zip(self.before, x.shape, self.after, strict=True)))
        pairs = zip(x.shape, shape, strict=True)
        require(
            self.mode is PadMode.CONSTANT or all(old > 0 or new == 0 for old, new in pairs),
            f"{x} has no elements to pad with",
        )
        return x.with_shape(shape)

    def evaluate(self, x: Array, value: Array | None = None) -> Array:
        """Place x in a full array, or pick the source of each element along each axis."""
        if self.mode is PadMode.CONSTANT:
            shape = tuple(map(sum, zip(self.before, x.shape, self.after, strict=True)))
            fill = ("" if x.dtype == string.numpy else 0) if value is None else value
            result = np.full(shape, fill, x.dtype)
            window = (slice(b, b + n) for b, n in zip(self.before, x.shape, strict=True))
            result[tuple(window)] = x
            return result
        for axis in self._padded_axes():
            x = x.take(self._sources(axis, x.shape[axis]), axis)
        return x

    def gradient(
        self, b: Builder, out: Value, grad: Value, x: Value, value: Value | None = None
    ) -> Gradients | None:
        """Inside to x, around it to the value; of other modes, that of the lowering."""
        if self.mode is not PadMode.CONSTANT:
            return None
        inner = b.emit(Slice(self.before, x.type.shape, (1,) * x.type.rank), grad)
        return inner, b.emit(Sub(), grad, b.emit(Pad(self.before, self.after), inner))

    def lower(self, b: Builder, x: Value, value: Value | None = None) -> Value:
        """One concatenation an axis."""
        for axis in self._padded_axes():
            extents = (self.before[axis], x.type.shape[axis], self.after[axis])
            if self.mode is PadMode.CONSTANT:
                parts = self._filled(b, x, value, axis)
            elif any(map(is_ranged, extents)):
                parts = self._around(b, x, axis)
            elif self._turns(axis, x.type.shape[axis]) > MOST_RUNS:
                x = self._repeated(b, x, axis)
                continue
            else:
                parts = list(_runs(b, x, axis, self._sources(axis, x.type.shape[axis])))
            x = b.emit(Concat(axis), *parts)
        return x

    def selects_itself(self) -> bool:
        """With a constant around it: fill the border, and copy the rest."""
        return self.mode is PadMode.CONSTANT

    def select(
        self, p: ProgramBuilder, out: Buffer, x: Buffer, value: Buffer | None = None
    ) -> None:
        """Fill what lies around the window of x; whoever makes x may write the window itself."""
        if value is None and x.type.dtype is string:
            p.emit(self, (out,), (x,))
            return
        for starts, extents in slabs_around(out.type.shape, self.before, x.type.shape):
            slab = p.window(out, starts, extents)
            if value is None:
                p.emit(Fill(slab.type.shape, 0.0, slab.type.dtype), (slab,), ())
            else:
                p.emit(Expand(slab.type.shape), (slab,), (value,))
        p.copy(p.window(out, self.before, x.type.shape), x)

    def band(
        self, cut: Cut, result: TensorType, operands: Sequence[TensorType | None]
    ) -> Band | None:
        """The rows of x that lie in the part, if any do, and the rest of it as padding."""
        axis, x = cut.axis, self.required_of(operands)[0]
        before, after = self.before[axis], self.after[axis]
        start, stop = max(0, cut.start - before), min(x.shape[axis], cut.stop - before)
        if start >= stop or (before + after and self.mode is not PadMode.CONSTANT):
            return None
        op = Pad(
            with_extent(self.before, axis, start + before - cut.start),
            with_extent(self.after, axis, cut.stop - before - stop),
            self.mode,
        )
        return Band(op, (Cut(axis, start, stop), *(None for _ in operands[1:])))

    def permuted(self, perm: tuple[int, ...]) -> Pad:
        """The entries in the new order."""
        return Pad(taken(self.before, perm), taken(self.after, perm), self.mode)

    def _padded_axes(self) -> list[int]:
        return [
            axis
            for axis, (n, m) in enumerate(zip(self.before, self.after, strict=True))
            if n + m != 0
        ]

    def _sources(self, axis: int, extent: int) -> Array:
        """The place in x that each element along an axis comes from."""
        assert not is_ranged(extent), "places are computed for exact extents only"
        places = np.arange(-self.before[axis], extent + self.after[axis])
        if self.mode is PadMode.EDGE:
            return np.clip(places, 0, extent - 1)
        turn = places % self._period(extent)
        return np.minimum(turn, self._period(extent) - turn) if self._mirrors else turn

    @property
    def _mirrors(self) -> bool:
        return self.mode is PadMode.REFLECT

    def _period(self, extent: int) -> int:
        """After how many elements along an axis they repeat."""
        return max(1, 2 * extent - 2) if self._mirrors else extent

    def _turns(self, axis: int, extent: int) -> int:
        """How often elements repeat along an axis."""
        if self.mode is PadMode.EDGE:
            return 1
        return (self.before[axis] + extent + self.after[axis]) // self._period(extent)

    def _repeated(self, b: Builder, x: Value, axis: int) -> Value:
        """One period of the elements along an axis, repeated, and cut to what is asked for."""
        extent = x.type.shape[axis]
        period, total = self._period(extent), self.before[axis] + extent + self.after[axis]
        if self._mirrors and extent > 2:
            back = b.emit(slice_axis(x.type, axis, extent - 2, extent - 2, -1), x)
            x = b.emit(Concat(axis), x, back)
        start = -self.before[axis] % period
        counts = [1] * x.type.rank
        counts[axis] = -(-(start + total) // period)
        repeated = b.emit(Tile(tuple(counts)), x)
        return b.emit(slice_axis(repeated.type, axis, start, total), repeated)

    def _around(self, b: Builder, x: Value, axis: int) -> list[Value]:
        """x between copies of its own elements, each of which is copied once at most."""
        extent, before, after = x.type.shape[axis], self.before[axis], self.after[axis]
        if self.mode is PadMode.EDGE:
            ends = (b.emit(slice_axis(x.type, axis, place, 1), x) for place in (0, extent - 1))
            shapes = (with_extent(x.type.shape, axis, count) for count in (before, after))
            first, last = (b.emit(Expand(s), end) for s, end in zip(shapes, ends, strict=True))
            return [first, x, last]
        mirrors, step = int(self._mirrors), -1 if self._mirrors else 1
        starts = (before, extent - 2) if self._mirrors else (extent - before, 0)
        if before > extent - mirrors or after > extent - mirrors:
            raise undecided(f"a {self.mode.value} pad of {x.type} that repeats elements", extent)
        first, last = (
            b.emit(slice_axis(x.type, axis, start, count, step), x)
            for start, count in zip(starts, (before, after), strict=True)
        )
        return [first, x, last]

    def _filled(self, b: Builder, x: Value, value: Value | None, axis: int) -> list[Value]:
        if value is None:
            empty = "" if x.type.dtype is string else 0
            value = b.constant(np.array(empty, x.type.dtype.numpy), name="scalar")
        parts = [x]
        for position, count in ((0, self.before[axis]), (2, self.after[axis])):
            if count != 0:
                shape = (*x.type.shape[:axis], count, *x.type.shape[axis + 1 :])
                parts.insert(position, b.emit(Expand(shape), value))
        return parts


def _runs(b: Builder, x: Value, axis: int, sources: Array) -> Iterator[Value]:
    """Slices of x along an axis that together pick `sources`: one a run of constant step."""
    start = 0
    while start < len(sources):
        step = int(sources[start + 1] - sources[start]) if start + 1 < len(sources) else 1
        end = start + 1
        while end < len(sources) and sources[end] - sources[end - 1] == step:
            end += 1
        first, extent = int(sources[start]), end - start
        if step:
            yield b.emit(slice_axis(x.type, axis, first, extent, step), x)
        else:
            one = b.emit(slice_axis(x.type, axis, first, 1), x)
            yield b.emit(Expand((*x.type.shape[:axis], extent, *x.type.shape[axis + 1 :])), one)
        start = end


@op("tile")
class Tile(Movement):
    """x repeated a number of times along each axis."""

    repeats: tuple[int, ...]

    def infer(self, x: TensorType) -> TensorType:
        """The extents times the repeats."""
        require(
            len(self.repeats) == x.rank and all(count >= 0 for count in self.repeats),
            f"repeats must have one entry per axis of {x}, none negative, got {self.repeats}",
        )
        return x.with_shape([n * count for n, count in zip(x.shape, self.repeats, strict=True)])

    def evaluate(self, x: Array) -> Array:
        """NumPy's tile."""
        return np.tile(x, self.repeats)

    def lower(self, b: Builder, x: Value) -> Value:
        """Give each repeated axis a neighbour of extent 1, expand that, and join the two."""
        split: list[int] = []
        expanded: list[int] = []
        for extent, count in zip(x.type.shape, self.repeats, strict=True):
            if count != 1:
                split.append(1)
                expanded.append(count)
            split.append(extent)
            expanded.append(extent)
        wide = b.emit(Expand(tuple(expanded)), b.emit(Reshape(tuple(split)), x))
        shape = tuple(n * count for n, count in zip(x.type.shape, self.repeats, strict=True))
        return b.emit(Reshape(shape), wide)

    def permuted(self, perm: tuple[int, ...]) -> Tile:
        """The entries in the new order."""
        return Tile(taken(self.repeats, perm))
