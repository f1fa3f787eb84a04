"""Products of bytes on devices that are no processors: four terms in a word of 32 bits.

The dot product of two such words is one instruction where the device has it. Bytes of x stay as
they are; what their zero point adds to a sum is known for each column, and is taken off at the end.
So bytes of words that are no elements, in the padding or behind the last channel, are zero points.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from afterglow.backends.items.around import read, write_result
from afterglow.backends.items.chain import places_of
from afterglow.backends.items.language import Pointer, offset
from afterglow.backends.items.quantized_parts import (
    known_zero_of_x,
    packed_weight,
    place_of_row,
    scaled,
    sliding_of,
    zero_of_weight,
)
from afterglow.backends.launched.parameters import elements_of
from afterglow.backends.opencl.clc import Value
from afterglow.backends.opencl.clc.types import spell
from afterglow.backends.opencl.kernels.group_product import LEAST_ROWS, Group, group_tile
from afterglow.backends.opencl.kernels.kernel import Kernel, KernelSource
from afterglow.backends.opencl.kernels.product import Extents, Work
from afterglow.backends.opencl.kernels.tile import Panel, panels
from afterglow.backends.pointwise.vocabulary import convert
from afterglow.ops.quantized import QuantizedConv
from afterglow.types import Array
from afterglow.types.dtype import i8, i32, u32

BYTES = 4
"""Bytes of a word."""
ONES = 0x01010101
"""A word of four ones; times a byte, four of that."""
LEAST_COLUMNS = 8
"""Fewer columns than these have no use for shared rows."""
_DOT = """int {name}(const uint x, const uint y) {{
#ifdef __opencl_c_integer_dot_product_input_4x8bit_packed
  return dot_4x8packed_{signs}_int(x, y);
#else
  const int4 products = convert_int4(as_{kind}4(x)) * convert_int4(as_char4(y));
  return products.x + products.y + products.z + products.w;
#endif
}}"""


def write_words(kernel: Kernel, arrange: Callable[[Array], Array]) -> KernelSource:
    """A product whose weight is known; `arrange` makes [groups, terms of a sum, columns] of it."""
    operands = _Operands(kernel, arrange)
    extents = operands.work.extents
    if extents.rows < LEAST_ROWS or extents.columns < LEAST_COLUMNS:
        _write_each(operands)
    else:
        operands.group = kernel.code.work_item(2)
        _WordGroup(operands).write()
    return kernel.finish()


def _write_each(operands: _Operands) -> None:
    """Each result by an item of its own; neighbours read neighbouring weights."""
    kernel, code, extents = operands.kernel, operands.kernel.code, operands.work.extents
    shape = (extents.rows, extents.count, extents.columns)
    row, operands.group, column = places_of(kernel, kernel.each(math.prod(shape)), shape)
    width = operands.work.tile.columns
    panel, within = column.combined("/", width), column.combined("%", width)
    total = code.variable(code.constant(i32, 0))
    with code.loop(extents.terms) as term:
        number = operands.number(row, term)
        operands.add(total, number, operands.weight(panel, within, term))
    write_result(kernel, operands.result(total, column), operands.place(row, column))


class _Operands:
    """The words of a product, and what their sums give."""

    def __init__(self, kernel: Kernel, arrange: Callable[[Array], Array]) -> None:
        self.kernel, self.code, self.arrange = kernel, kernel.code, arrange
        self.step, self.x, self.out = kernel.step, kernel.step.operand(0), kernel.step.outs[0]
        weight = arrange(elements_of(self.step.operand(1)))
        groups, terms, columns = weight.shape
        self.sliding = sliding_of(kernel) if isinstance(self.step.op, QuantizedConv) else None
        self.window = () if self.sliding is None else self.sliding.windows.kernel
        self.channels = terms // math.prod(self.window)
        self.words = -(-self.channels // BYTES)
        """Of the channels of a tap."""
        rows, words = math.prod(self.out.type.shape[:-1]), math.prod(self.window) * self.words
        self.work = Work(Extents(rows, columns, words, groups), group_tile(kernel.limits))
        self.shift = _shift(weight.astype(np.int16) - zero_of_weight(self.step))
        self.group = self.code.index(0)
        self.zero = known_zero_of_x(self.step)
        self.fill = self._fill()

    def _fill(self) -> Value:
        """The word of four zero points of x."""
        if self.zero is not None:
            return self.code.constant(u32, (self.zero & 255) * ONES)
        zero = read(self.kernel, self.step.operand(4), [])
        return self.code.define(f"as_uint(({spell(zero.dtype, BYTES)})({zero.text}))", u32)

    def number(self, row: Value, term: Value) -> Value:
        """A word of a row."""
        where = places_of(self.kernel, row, self.out.type.shape[:-1])
        *taps, word = places_of(self.kernel, term, (*self.window, self.words))
        channel = word * BYTES
        if self.sliding is None:
            place = [*place_of_row(self.x, where), channel]
            return self._word(offset(self.code, place, self.x.strides), channel, None)
        seen = self.sliding.seen(self.sliding.corner(where[1:]), taps)
        inside = self.sliding.inside(seen)
        place = [where[0], *seen, self.group * self.channels + channel]
        return self._word(offset(self.code, place, self.x.strides), channel, inside)

    def _word(self, place: Value, channel: Value, inside: Value | None) -> Value:
        """Four bytes of x from a place on, which are its channels from one on."""
        at = self.code.named(place).text
        source, kind = self.kernel.pointer(self.x).name, spell(self.x.type.dtype, BYTES)
        text = f"as_uint(vload4(0, {source} + {at}))"
        if self.channels % BYTES:
            fill = f"as_{kind}({self.fill.text}).x"
            rest = ", ".join(
                f"{channel.text} + {n} < {self.channels} ? {source}[{at} + {n}] : {fill}"
                for n in range(1, BYTES)
            )
            text = f"as_uint(({kind})({source}[{at}], {rest}))"
        elif self._is_aligned:
            text = f"*(__global const uint*)({source} + {at})"
        if inside is not None:
            text = f"{inside.text} ? {text} : {self.fill.text}"
        return self.code.define(text, u32)

    @property
    def _is_aligned(self) -> bool:
        """Whether every word of x begins where the device reads words."""
        steps = (self.x.start, self.channels, *self.x.strides[:-1])
        return all(step % BYTES == 0 for step in steps)

    def weight(self, panel: Value, column: Value, term: Value) -> Value:
        """A word of a column of a panel."""
        work = self.work
        row = (self.group * work.all_panels + panel) * work.extents.terms + term
        return self._weights().load(row * work.tile.columns + column)

    def _weights(self) -> Pointer[Value]:
        width = self.work.tile.columns
        return packed_weight(
            self.kernel,
            f"words in panels of {width} for {self.step.op!r}",
            lambda data: panels(width)(self._packed(data)),
            u32,
        )

    def _packed(self, data: Array) -> Array:
        """Words [groups, words of a sum, columns], with zeros behind the last channel of a tap."""
        extents = self.work.extents
        taps = self.arrange(data).reshape(extents.count, -1, self.channels, extents.columns)
        beyond = self.words * BYTES - self.channels
        padded = np.pad(taps - np.int16(self.shift), ((0, 0), (0, 0), (0, beyond), (0, 0)))
        four = padded.reshape(extents.count, extents.terms, BYTES, extents.columns)
        of_bytes = np.ascontiguousarray(four.transpose(0, 1, 3, 2), i8.numpy)
        return of_bytes.view(u32.numpy)[..., 0]

    def _offsets(self) -> Pointer[Value]:
        """What the zero point of x adds to each column; if it is not known: were it 1."""
        factor = 1 if self.zero is None else self.zero
        count = BYTES * self.work.extents.terms

        def pack(data: Array) -> Array:
            words = np.ascontiguousarray(self._packed(data))
            sums = words.view(i8.numpy).reshape(*words.shape, BYTES).sum((1, 3), np.int64)
            return np.asarray(factor * (sums + self.shift * count))

        return packed_weight(self.kernel, f"{factor} times sums for {self.step.op!r}", pack, i32)

    def start(self, panel: Value) -> Panel | None:
        """Sums begin with zeros."""
        return None

    def place(self, row: Value, column: Value) -> list[Value]:
        """Where a result is, given the column of the group."""
        where = places_of(self.kernel, row, self.out.type.shape[:-1])
        return [*where, self._channel(column)]

    def _channel(self, column: Value) -> Value:
        return self.group * self.work.extents.columns + column

    def add(self, total: Value, number: Value, columns: Value) -> None:
        """Add the dot products of a word of a row with words of some columns."""
        dot, lanes = self._dot(), columns.lanes
        each = [f"{columns.text}.s{n}" for n in range(lanes)] if lanes > 1 else [columns.text]
        found = ", ".join(f"{dot}({number.text}, {one})" for one in each)
        products = self.code.define(f"({spell(i32, lanes)})({found})", i32, lanes)
        if self.shift:
            ones = self.code.constant(u32, ONES)
            shifted = self.code.define(f"{dot}({number.text}, {ones.text})", i32) * self.shift
            products = products + shifted
        self.code.assign(total, total + products)

    def _dot(self) -> str:
        """The function that multiplies two words."""
        signs, kind = ("ss", "char") if self.x.type.dtype is i8 else ("us", "uchar")
        name = f"dot_{signs}"
        return self.code.helper(name, _DOT.format(name=name, signs=signs, kind=kind))

    def result(self, total: Value, column: Value) -> Value:
        """Sums of some columns without what the zero point added, and scaled."""
        channel = self.code.named(self._channel(column))
        if self.zero != 0:
            added = self._offsets().load(channel, total.lanes)
            if self.zero is None:
                added = added * convert(read(self.kernel, self.step.operand(4), []), i32)
            total = total - added
        return scaled(self.kernel, total, channel, total.lanes)


class _WordGroup(Group):
    """A work-item of a group that shares words."""

    def __init__(self, operands: _Operands) -> None:
        super().__init__(operands.kernel, operands.work, operands, u32, i32)
        self.words = operands

    def add(self, total: Value, number: Value, columns: Value) -> None:
        """See the base."""
        self.words.add(total, number, columns)

    def result(self, total: Value, column: Value) -> Value:
        """See the base."""
        return self.words.result(total, column)


def _shift(differences: Array) -> int:
    """What is taken off weights so that they are bytes; their zero points are taken off already."""
    least, most = int(differences.min(initial=0)), int(differences.max(initial=0))
    return 0 if least >= -128 and most <= 127 else least + 128
