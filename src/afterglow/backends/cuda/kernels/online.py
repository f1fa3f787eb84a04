"""Softmax of scores that come block by block, and the values that it mixes meanwhile.

What was mixed of earlier values is scaled down whenever a larger score turns up.
"""

from __future__ import annotations

import math

from afterglow.backends.cuda.kernels.folds import SUM, peak_of
from afterglow.backends.cuda.kernels.last_arriver import load_shared
from afterglow.backends.cuda.kernels.lines import power_of_two
from afterglow.backends.cuda.tl import Code, Pointer, Value
from afterglow.backends.pointwise.vocabulary import convert, equal, larger, select
from afterglow.types.dtype import f32

_UNROLL = 4
"""Programs whose results are loaded at a time."""
LOG2_E = math.log2(math.e)


class Online:
    """Rows of weighted sums of values, and the largest score and the sum of weights of each."""

    def __init__(
        self,
        code: Code,
        rows: int,
        columns: int,
        *,
        is_log2: bool,
        options: str,
        keeps_weights: bool,
    ) -> None:
        """`is_log2`: scores are exponents of 2, not of e. `options` are those of products.

        `keeps_weights`: what rounding weights to the type of values takes away is multiplied, too.
        """
        self.code, self.is_log2, self.options = code, is_log2, options
        self.keeps_weights = keeps_weights
        zero, lowest = code.constant(f32, 0), code.constant(f32, float("-inf"))
        self.peak = code.variable(lowest, shape=(rows, 1))
        self.total = code.variable(zero, shape=(rows, 1))
        self.mixed = code.variable(zero, shape=(rows, columns))

    def add(self, scores: Value, values: Value, factors: Value | None = None) -> None:
        """Take in a block of keys; `factors` are those of their values."""
        code = self.code
        peak = larger(self.peak, peak_of(scores))
        base = _finite(peak)
        weights, scale = self.power(scores - base), self.power(self.peak - base)
        code.assign(self.total, self.total * scale + SUM.within(weights))
        code.assign(self.peak, peak)
        weights = weights if factors is None else weights * factors
        narrow, before = convert(weights, values.dtype), self.mixed * scale
        self._mix(narrow, values, before)
        if self.keeps_weights and values.dtype is not f32:
            rest = convert(weights - convert(narrow, f32), values.dtype)
            self._mix(rest, values, self.mixed)

    def _mix(self, weights: Value, values: Value, before: Value) -> None:
        product = f"tl.dot({weights.text}, {values.text}, {before.text}{self.options})"
        self.code.perform(f"{self.mixed.text} = {product}")

    def power(self, exponent: Value) -> Value:
        """The exponential of a difference of scores."""
        scaled = exponent if self.is_log2 else exponent * LOG2_E
        return scaled.derive(f"tl.exp2({scaled.text})")

    def result(self) -> Value:
        """The means of the values; 0 where no key counts."""
        return _mean(self.mixed, self.total)

    def store(self, memory: Pointer, rows: Value, columns: Value, start: Value) -> None:
        """Write everything, for another program to put together with what others found."""
        height, width = self.mixed.shape
        memory.store(self.mixed, start + rows * width + columns)
        memory.store(self.peak, start + (rows + height * width))
        memory.store(self.total, start + (rows + height * (width + 1)))

    @property
    def room(self) -> int:
        """How many numbers that are."""
        return room_of(*self.mixed.shape)

    def combined(
        self, memory: Pointer, rows: Value, columns: Value, start: Value, shares: int
    ) -> Value:
        """The result of what so many programs stored, one behind the other from a place on."""
        code, (height, width) = self.code, self.mixed.shape
        block = code.range(power_of_two(shares))
        share = code.along(block, 1, 2)
        with code.when(share < shares):
            of_row = start + share * self.room + (rows + height * width)
            peaks, totals = (load_shared(memory, at) for at in (of_row, of_row + height))
        peaks = select(share < shares, peaks, float("-inf"))
        base = _finite(peak_of(peaks))
        total = SUM.within(self.power(peaks - base) * totals)
        mixed = code.variable(code.constant(f32, 0), shape=(height, width))
        with code.loop(shares, unroll=min(shares, _UNROLL)) as number:
            own = code.named(start + number * self.room)
            weight = self.power(load_shared(memory, own + (rows + height * width)) - base)
            found = load_shared(memory, own + rows * width + columns)
            code.assign(mixed, mixed + found * weight)
        return _mean(mixed, total)


def room_of(rows: int, columns: int) -> int:
    """How many numbers a program stores."""
    return rows * (columns + 2)


def _finite(peak: Value) -> Value:
    """What can be subtracted: 0 in the place of -infinity, below which there is nothing."""
    return select(equal(peak, float("-inf")), 0.0, peak)


def _mean(mixed: Value, total: Value) -> Value:
    return mixed * (1.0 / select(equal(total, 0.0), 1.0, total))
