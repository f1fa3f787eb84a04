"""Matrix products, convolutions and pooling: windows of an image, tile by tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, product
from math import inf
from typing import Any, TypeAlias

from ember_chip.isa import SCRATCHPAD_BYTES, Instr, View, dense

from afterglow.instr import Buffer, OpInstr
from afterglow.ops import convolution, linear, pooling, quantized
from ember_backend.emitter import KINDS, Emitter, Job
from ember_backend.vector import Pointwise, Temp

Pair: TypeAlias = tuple[int, int]
_FLOATS = [("f32", "f32"), ("f32", "bf16")]
_BYTES = list(product(("i8", "u8"), repeat=2))
_MATRICES = (linear.MatMul, quantized.QuantizedMatMul)
_TAKEN = {
    convolution.Conv: _FLOATS,
    linear.MatMul: _FLOATS,
    pooling.MaxPool: [("f32",), ("i8",), ("u8",)],
    quantized.QuantizedConv: _BYTES,
    quantized.QuantizedMatMul: _BYTES,
}
_LEAST = {"f32": -inf, "i8": -128.0, "u8": 0.0}


@dataclass(frozen=True)
class Geometry:
    """Windows on images, in rows and columns: what the choice of tiles depends on."""

    image: Pair
    result: Pair
    kernel: Pair
    strides: Pair
    dilations: Pair
    pads: Pair
    channels: int
    outs: int
    """Channels of the result; 0 if they are those of the image, as of pooling."""
    passes: int
    widths: Pair
    """Bytes of an element of the image and of the weight."""
    held: Pair
    """Bytes in the scratchpad for each element of a tile of the result, and for each column."""

    @property
    def is_gathered(self) -> bool:
        """Whether windows are copied one after the other: single taps would leave lanes idle."""
        few = self.outs > 0 and self.channels < 16
        return few and self.kernel != (1, 1) and self.dilations[1] == 1

    def seen(self, counts: Sequence[int]) -> tuple[int, ...]:
        """Rows and columns that so many windows see, padding included."""
        axes = zip(counts, self.kernel, self.strides, self.dilations, strict=True)
        return tuple((n - 1) * stride + (k - 1) * apart + 1 for n, k, stride, apart in axes)

    def tile_bytes(self, tile: Sequence[int]) -> tuple[int, int, int]:
        """The bytes of a tile of the image, of one of the weight, and of gathered windows."""
        rows, cols, outs, depth, _ = tile
        (high, wide), taps = self.seen((rows, cols)), self.kernel[0] * self.kernel[1] * depth
        gathered = rows * cols * taps * self.widths[0] if self.is_gathered else 0
        return high * wide * depth * self.widths[0], taps * outs * self.widths[1], gathered

    def cycles(self, tile: tuple[int, ...]) -> float:
        """An estimate for tiles of rows, columns, channels out and in; whether the weight stays."""
        rows, cols, outs, depth, stays = tile
        x, w, gathered = self.tile_bytes(tile)
        held = outs * (rows * cols * self.held[0] + self.held[1])
        if 2 * (x + w) + gathered + held > SCRATCHPAD_BYTES - 4096:
            return inf
        spots = -(-self.result[0] // rows) * -(-self.result[1] // cols)
        columns, chunks = -(-self.outs // outs) or 1, -(-self.channels // depth)
        xs = spots if chunks == 1 and not stays else spots * columns
        ws = columns if chunks == 1 and stays else spots * columns
        burst = max(1, 16 / (depth * self.widths[0]))
        moved = chunks * (xs * (x * burst / 4 + 64) + ws * (w / 4 + 64))
        taps, wide = (1, self.kernel[0]) if self.is_gathered else (self.kernel[0], 1)
        blocks = -(-wide * self.kernel[1] * depth // 16) * -(-outs // 16) if self.outs else 1
        work = taps * (32 + self.passes * blocks * max(rows * cols, 16))
        return max(moved, spots * columns * chunks * work) + (x + w) / 4


@cache
def best_tile(g: Geometry) -> tuple[float, tuple[int, ...]]:
    """The fewest cycles, and the tile that takes them."""
    rows, cols, depths = (_splits(n) for n in (*g.result, g.channels))
    spaces = [*((n, g.result[1]) for n in rows), *((1, n) for n in cols)]
    outs = [(out, depth) for depth in depths for out in (_splits(g.outs) if g.outs else [depth])]
    choices = product(spaces, outs, ((0,), (1,)))
    return min((g.cycles(tile), tile) for tile in (sum(choice, ()) for choice in choices))


def _splits(n: int) -> list[int]:
    """Extents to try along an axis: a few equal parts, in whole blocks, and powers of two."""
    unit = 16 if n > 64 else 1
    few = {-(-n // (count * unit)) * unit for count in (2, 3, 4)}
    return sorted({n, *few, *(2**i for i in range(10))} & {*range(1, n + 1)})


def _parts(total: int, extent: int) -> list[Pair]:
    """The start and extent of each part along an axis; the last may be smaller."""
    return [(start, min(extent, total - start)) for start in range(0, total, extent)]


class Product:
    """Windows of an image times a weight, or their maximum, and element-wise steps after it."""

    def __init__(self, e: Emitter, members: Sequence[OpInstr], passes: int) -> None:
        step, *rest = members
        self.e, self.op, self.x, out = e, step.op, step.operand(0), step.outs[0]
        self.kind = KINDS[self.x.type.dtype]
        self.weight = None if isinstance(self.op, pooling.MaxPool) else step.operand(1)
        self.zeros = [n for name, n in vars(self.op).items() if name.endswith("zero_point")]
        self.sums = sums = Temp("i32" if self.zeros else self.kind)
        self.after = after = Pointwise(e, out.type.shape, sums)
        scale, bias = (step.optional(i) for i in ((2, 3) if self.zeros else (9, 2)))
        if bias is not None:
            sums = after.then("add", sums, after.operand(bias), kind=sums.kind)
        if scale is not None:
            sums = after.then("mul", after.then("cast", sums), after.operand(scale))
        after.result(out, sums)
        self.is_fused = all(after.add(member) for member in rest)
        sizes = self._matrix(out) if isinstance(self.op, _MATRICES) else self._images(out)
        widths = [b.type.dtype.itemsize if b else 0 for b in (self.x, self.weight)]
        self.passes = 1 if self.zeros else passes
        self.geometry = Geometry(*sizes, self.passes, tuple(widths), after.held())
        self.cycles, self.tile = best_tile(self.geometry)
        # whether neighbours in the weight belong to neighbouring columns of the result
        self.has_columns = self.weight and self.weight.strides[-4] < self.weight.strides[-1]

    @staticmethod
    def takes(step: OpInstr) -> bool:
        """Whether the array, or the vector unit for pooling, computes a step."""
        kinds = tuple(KINDS.get(b.type.dtype, "") for b in step.ins[:2] if b is not None)
        is_flat = isinstance(step.op, _MATRICES) or step.outs[0].type.rank in (3, 4)
        return is_flat and step.optional(4) is None and kinds in _TAKEN.get(type(step.op), ())

    def _matrix(self, out: Buffer) -> tuple[Any, ...]:
        """Rows of a matrix are the columns of an image that has one row."""
        self.batch, (size, columns), self.groups = out.type.shape[:-2], out.type.shape[-2:], 1
        (*left, row, depth), (*right, across, column) = (
            b.broadcast((*self.batch, *b.type.shape[-2:])).strides for b in (self.x, self.weight)
        )
        channels = self.x.type.shape[-2 if self.op.transpose_lhs else -1]
        row, depth = (depth, row) if self.op.transpose_lhs else (row, depth)
        across, column = (column, across) if self.op.transpose_rhs else (across, column)
        self.x = _along(self.x, (*left, 0, row, depth))
        self.weight = _along(self.weight, (*right, column, 0, 0, across))
        return (1, size), (1, size), (1, 1), (1, 1), (1, 1), (0, 0), channels, columns

    def _images(self, out: Buffer) -> tuple[Any, ...]:
        """Images of one axis have one row; of windows of one element, others are not loaded."""
        op, x, kernel, outs = self.op, self.x, getattr(self.op, "kernel", ()), 0
        self.batch, self.groups, channels = out.type.shape[:1], 1, x.type.shape[-1]
        if self.weight is not None:
            self.groups, (outs, *kernel, channels) = op.groups, self.weight.type.shape
            column, *steps, depth = self.weight.strides
            self.weight = _along(self.weight, (0, column, *(0, *steps)[-2:], depth))
        extents = (x.type.shape[1:-1], out.type.shape[1:-1], kernel, op.strides, op.dilations)
        image, result, kernel, strides, apart = ((1, *values)[-2:] for values in extents)
        pads, axes = (0, *op.pads[: x.type.rank - 2])[-2:], (0, *x.strides[1:-1])[-2:]
        if kernel == (1, 1) and not any(op.pads):
            axes = [axis * stride for axis, stride in zip(axes, strides, strict=True)]
            image, strides = result, (1, 1)
        self.x = _along(x, (x.strides[0], *axes, x.strides[-1]))
        return image, result, kernel, strides, apart, pads, channels, outs // self.groups

    def jobs(self) -> Iterator[Job]:
        """Each tile of the result, over all channels of the image."""
        g, (*most, depth, stays), rank = self.geometry, self.tile, len(self.after.shape)
        image, weight, gathered = g.tile_bytes(self.tile)
        sizes = (image, image, weight, weight, gathered)
        *places, self.gathered, place = accumulate([0, *(-(-n // 64) * 64 for n in sizes)])
        self.slots, self.there = {"x": places[:2], "w": places[2:]}, dict[str, Any]()
        spots = list(product(_parts(g.result[0], most[0]), _parts(g.result[1], most[1])))
        outs = _parts(g.outs or g.channels, most[2])
        tiles = [(s, o) for o in outs for s in spots] if stays else list(product(spots, outs))
        values, room = self.after.layout(((1,) * rank + tuple(most))[-rank:])
        where = product(product(*map(range, self.batch)), range(self.groups), tiles)
        for number, (batch, group, (spot, out)) in enumerate(where):
            shape, begin = (spot[0][1], spot[1][1], out[1]), place + number % 2 * room
            sums = View(self.sums.kind, shape, begin, dense(shape))
            starts = (spot[0][0], spot[1][0], group * g.outs + out[0])[len(self.batch) - rank :]
            end = (*batch, *starts), ((1,) * rank + shape)[-rank:], begin, values
            chunks = _parts(g.channels, depth) if g.outs else [out]
            for chunk in chunks:
                job = self.after.job(*end) if chunk == chunks[-1] else Job()
                x = self._image(job, batch, group, spot, chunk)
                w = self._kernel(job, batch, group, out, chunk) if self.weight else 0
                job.work[:0] = self._combined(sums, x, w, is_first=chunk == chunks[0])
                yield job

    def _slot(self, operand: str, key: Any) -> tuple[int, bool]:
        """Where a tile goes: to the slot that is not in use, unless it is there already."""
        slot, had = self.there.get(operand, (1, None))
        self.there[operand] = slot ^ (had != key), key
        return self.slots[operand][slot ^ (had != key)], had == key

    def _image(self, job: Job, batch: Any, group: int, spot: Any, chunk: Pair) -> View:
        """What the windows of a tile see: rows, columns and channels, padded."""
        g, (place, is_there) = self.geometry, self._slot("x", (batch, group, spot, chunk))
        shape = (*g.seen([n for _, n in spot]), chunk[1])
        tile = View(self.kind, shape, place, dense(shape))
        first = [i * s - pad for (i, _), s, pad in zip(spot, g.strides, g.pads, strict=True)]
        low = [max(i, 0) for i in first]
        ends = zip(low, first, shape, g.image, strict=False)
        inside = (*(min(f + n, most) - i for i, f, n, most in ends), chunk[1])
        if inside != shape and not is_there:
            value = _LEAST[self.kind] if self.weight is None else sum(self.zeros[:1])
            job.fills.append(Instr("v.copy", (tile, float(value))))
        if min(inside) > 0 and not is_there:
            start = (*batch, *low, group * g.channels + chunk[0])
            skipped = sum((i - f) * s for i, f, s in zip(low, first, tile.strides, strict=False))
            target = View(self.kind, inside, place + skipped * g.widths[0], tile.strides)
            job.loads.append((target, self.e.tile(self.x, start, inside)))
        return tile

    def _kernel(self, job: Job, batch: Any, group: int, out: Pair, chunk: Pair) -> int:
        """Where columns of the weight are: what is nearest in DRAM comes last there, too."""
        g, (place, is_there) = self.geometry, self._slot("w", (batch, group, out, chunk))
        if not is_there:
            start = (*batch, group * g.outs + out[0], 0, 0, chunk[0])
            whole = self.e.tile(self.weight, start, (out[1], *g.kernel, chunk[1]))
            axes = (1, 2, 3, 0) if self.has_columns else (0, 1, 2, 3)
            shape, strides = (tuple(v[i] for i in axes) for v in (whole.shape, whole.strides))
            dram = replace(whole, shape=shape, strides=strides)
            job.loads.append((View(whole.dtype, shape, place, dense(shape)), dram))
        return place

    def _combined(self, sums: View, x: View, w: int, is_first: bool) -> Iterator[Instr]:
        """An instruction a tap; taps that lie side by side, or are gathered so, are one."""
        g, (*counts, outs), depth = self.geometry, sums.shape, x.shape[2]
        zeros = zip(("a_zero", "w_zero"), self.zeros, strict=False)
        fields = tuple(zeros) or (("passes", self.passes),)
        high, wide = 1, g.kernel[1] if self.weight and g.dilations[1] == 1 else 1
        steps = (x.strides[0] * g.strides[0], x.strides[1] * g.strides[1])
        if g.is_gathered:
            high, window = g.kernel[0], (*counts, g.kernel[0], wide * depth)
            apart = (*steps, g.dilations[0] * x.strides[0], 1)
            gathered = View(x.dtype, window, self.gathered, dense(window))
            yield Instr("v.copy", (gathered, View(x.dtype, window, x.offset, apart)))
            x, steps = gathered, gathered.strides[:2]
        rows = (*counts, high * wide * depth)
        across, down = (1, outs) if self.has_columns else (g.kernel[0] * g.kernel[1] * depth, 1)
        taps = product(range(0, g.kernel[0], high), range(0, g.kernel[1], wide))
        for number, (row, col) in enumerate(taps):
            begin = row * g.dilations[0] * x.strides[0] + col * g.dilations[1] * x.strides[1]
            a = View(x.dtype, rows, x.offset + begin * g.widths[0], (*steps, 1))
            opens = is_first and not number
            if self.weight is None:
                yield Instr("v.copy", (sums, a)) if opens else Instr("v.max", (sums, sums, a))
                continue
            begin = w + (row * g.kernel[1] + col) * depth * down * g.widths[1]
            b = View(KINDS[self.weight.type.dtype], (rows[-1], outs), begin, (down, across))
            yield Instr("mm.set" if opens else "mm.add", (sums, a, b), fields)


def _along(buffer: Buffer, strides: Sequence[int]) -> Buffer:
    """A buffer along the axes of images or kernels."""
    return buffer.along((1,) * len(strides), strides)
