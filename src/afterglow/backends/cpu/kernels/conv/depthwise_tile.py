"""One tile of a depthwise convolution: rows and columns of results, a vector of channels."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.conv.depthwise_plan import Depthwise
from afterglow.backends.cpu.llvm.emitter import Emitter, Index, Pointer, Value, convert, fma, gather
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import Row
from afterglow.backends.cpu.micro.sliding import WIDEST_KERNEL, WindowRun, fold_taps, load
from afterglow.support.lazy_dataclass import dataclass


class Operands:
    """The operands that a tile reads."""

    def __init__(self, conv: Depthwise, p: Phase) -> None:
        self.x, self.weight = p.pointer(conv.x), conv.packed_weight(p)
        self.channels_of_x = conv.channels_of_x(p)
        bias = conv.bias
        self.bias = None if bias is None else Row(p.pointer(bias), bias.strides[0])


@dataclass
class RowTile:
    """Neighbouring rows of results: where their windows begin, and which rows they see."""

    start: Pointer
    ranges: list[tuple[Index, Index]]
    first: Index
    number: Index
    inside: list[Value | None]
    is_there: list[Value | None]


@dataclass(frozen=True)
class Vector:
    """Neighbouring channels, where the mask holds."""

    channel: Value
    lanes: int
    mask: Value | None


class DepthwiseTile:
    """One tile while it is being written: rows and columns of results, a vector of channels."""

    def __init__(
        self,
        e: Emitter,
        conv: Depthwise,
        operands: Operands,
        rows: RowTile,
        run: WindowRun,
        column: Index,
        vector: Vector,
    ) -> None:
        self.e, self.conv, self.rows, self.run, self.column = e, conv, rows, run, column
        self.vector, self.bias = vector, operands.bias
        self.weight = operands.weight + vector.channel
        self.across = conv.field.columns
        self.x = rows.start + self.across.first(column) * self.across.step
        self.lanes_of_x: Value | None = None
        if operands.channels_of_x is None:
            self.x = self.x + vector.channel * conv.field.channel_step
        else:
            self.lanes_of_x = operands.channels_of_x.load(vector.channel, vector.lanes)
        self.x, self.weight = self.x.settled(), self.weight.settled()

    def sums(self) -> list[list[Value]]:
        """The results, by rows and columns."""
        width = self.run.width
        zero = self.e.constant(self.conv.dtype, 0, self.vector.lanes)
        step = self._add_rows if self.conv.unrolls_rows else self._add_row
        sums = fold_taps(self.e, self.rows.ranges, [zero] * (self.conv.tile_rows * width), step)
        if self.bias is not None:
            bias = self._loaded_bias(self.bias)
            sums = [total + bias for total in sums]
        return [sums[start : start + width] for start in range(0, len(sums), width)]

    def _loaded_bias(self, bias: Row) -> Value:
        vector = self.vector
        return load(bias, vector.channel, vector.lanes, vector.mask, self.conv.dtype)

    def _add_rows(self, taps: list[Index], sums: list[Value]) -> list[Value]:
        """Add what every row of x, that the tile sees, contributes."""
        for row, inside in enumerate(self.rows.inside):
            if not self._users(row):
                continue
            if inside is None:
                sums = self._add_row_of_x(taps, row, sums)
            else:
                sums = self._add_row_if(inside, taps, row, sums)
        return sums

    def _add_row_if(
        self, inside: Value, taps: list[Index], row: int, sums: list[Value]
    ) -> list[Value]:
        return self.e.branch(
            inside, lambda: self._add_row_of_x(taps, row, sums), lambda: sums, likely=True
        )

    def _users(self, row: int) -> list[tuple[int, int]]:
        """The result rows that see a row of x, each with the place of its window where it does."""
        axis = self.conv.rows
        offsets = [(i, row - i * axis.stride) for i in range(self.conv.tile_rows)]
        return [
            (i, offset // axis.dilation)
            for i, offset in offsets
            if 0 <= offset < axis.reach and offset % axis.dilation == 0
        ]

    def _add_row_of_x(self, taps: list[Index], row: int, sums: list[Value]) -> list[Value]:
        x = self._outer(self.x, taps) + row * self.conv.rows.step
        for i, tap in self._users(row):
            first = i * self.run.width
            some = sums[first : first + self.run.width]
            added = self._add_window_row(x, self._weights([*taps, tap]), some)
            sums = [*sums[:first], *added, *sums[first + self.run.width :]]
        return sums

    def _add_row(self, taps: list[Index], sums: list[Value]) -> list[Value]:
        """Add one row of the windows of a tile of one row."""
        return self._add_window_row(self._outer(self.x, taps), self._weights(taps), sums)

    def _outer(self, x: Pointer, taps: list[Index]) -> Pointer:
        for axis, tap in zip(self.conv.field.axes, taps, strict=False):
            x = x + tap * (axis.dilation * axis.step)
        return x

    def _weights(self, taps: list[Index]) -> Pointer:
        """Where the weights of one row of the windows begin."""
        number: Index = 0
        for axis, tap in zip(self.conv.field.axes, taps, strict=False):
            number = number * axis.kernel + tap
        return self.weight + number * (self.across.kernel * self.conv.padded)

    def _add_window_row(self, x: Pointer, weight: Pointer, sums: list[Value]) -> list[Value]:
        across = self.across
        if self.run.clipped or across.kernel > WIDEST_KERNEL:
            bounds = across.taps(self.e, self.column) if self.run.clipped else (0, across.kernel)
            return fold_taps(
                self.e, [bounds], sums, lambda taps, inner: self._add(x, weight, taps[0], inner)
            )
        for tap in range(across.kernel):
            sums = self._add(x, weight, tap, sums)
        return sums

    def _add(self, x: Pointer, weight: Pointer, tap: Index, sums: list[Value]) -> list[Value]:
        across, result = self.across, []
        factor = (weight + tap * self.conv.padded).load(0, self.vector.lanes)
        for j, total in enumerate(sums):
            if isinstance(tap, int) and not self._sees(j, tap):
                result.append(total)
                continue
            place = x + (tap * across.dilation + j * across.stride) * across.step
            # the first product as it is; without a bias to come, -0 must become 0
            is_first = self.bias is not None and total.constant == 0
            value = self._load(place)
            result.append(value * factor if is_first else _multiply_add(value, factor, total))
        return result

    def _sees(self, j: int, tap: int) -> bool:
        return not self.run.is_single or self.across.sees(self.run.start + j, tap)

    def _load(self, place: Pointer) -> Value:
        field, vector, dtype = self.conv.field, self.vector, self.conv.dtype
        if self.lanes_of_x is None:
            return load(Row(place, field.channel_step), 0, vector.lanes, vector.mask, dtype)
        if field.channels == 1:
            return convert(place.load(), dtype).splat(vector.lanes)
        return convert(gather(place, self.lanes_of_x), dtype)


def _multiply_add(x: Value, factor: Value, total: Value) -> Value:
    return fma(x, factor, total) if x.dtype.is_float else x * factor + total
