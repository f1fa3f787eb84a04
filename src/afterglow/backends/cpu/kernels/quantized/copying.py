"""A dense copy of x with its padding, in the element type that the machine's instructions take."""

from __future__ import annotations

import math

from afterglow.backends.cpu.kernels.quantized.dots import QUAD
from afterglow.backends.cpu.kernels.quantized.problem import ByteReading
from afterglow.backends.cpu.llvm.emitter import (
    Pointer,
    Value,
    convert,
    equal,
    reinterpret,
    widen_in_order,
)
from afterglow.backends.cpu.micro.cost import COPIED_BYTE
from afterglow.backends.cpu.micro.kernel import Kernel, Phase, Storage
from afterglow.backends.cpu.micro.rows import Axes, split
from afterglow.types.dtype import DType, i16, i32, u8

MOST_WORDS = 4
"""Words of four bytes that are copied in one turn of a loop."""


def pointer_to_x(p: Phase, reading: ByteReading) -> Pointer:
    """The address of x, or of its copy."""
    if not reading.copied:
        return p.pointer(reading.x)
    return p.workspace("copy")


def copy_storage(reading: ByteReading) -> dict[str, Storage]:
    """The workspace for the copy, if there is one."""
    return {"copy": Storage(reading.dtype, reading.size)} if reading.copied else {}


def write_copy(k: Kernel, reading: ByteReading) -> None:
    """Write the phase that makes the copy if there is one, a unit for each line of it."""
    if not reading.copied:
        return
    lines = math.prod(reading.shape[:-2])
    with k.phase(lines, COPIED_BYTE * reading.size, "copy") as p:
        copying, to = Copying(p, reading), pointer_to_x(p, reading)
        with p.units() as line:
            copying.write_line(line, to + line * math.prod(reading.shape[-2:]))


def zero_point_in(p: Phase, reading: ByteReading, dtype: DType) -> Value:
    """The zero point of x as it is read, which a type has to hold. Ask before loops."""
    if reading.zero is None:
        return p.e.constant(dtype, reading.zero_point)
    stored = convert(p.pointer(reading.zero).load(), i32)
    return convert(stored + reading.zero_point, dtype)


class Copying:
    """The function that copies lines, which are the last two axes of x."""

    def __init__(self, p: Phase, reading: ByteReading) -> None:
        self.p, self.e, self.reading = p, p.e, reading
        self.source = p.pointer(reading.x)
        self.zero = zero_point_in(p, reading, reading.dtype)

    def write_line(self, line: Value, to: Pointer) -> None:
        """Write one line: padding, then what x has, then padding; or nothing but padding."""
        shape, own, begins = self.reading.shape, self.reading.own_shape, self.reading.begins
        pixels, channels = shape[-2:]
        source, place, inside = self.source, self.e.index(line), equal(line, line)
        for axis in range(len(shape) - 3, -1, -1):
            rest, index = split(place, shape[axis]) if axis else (place, place)
            at = self.e.index(index) - begins[axis]
            if shape[axis] != own[axis]:
                inside = inside & (at >= 0) & (at < own[axis])
            source, place = source + at * self.reading.own_strides[axis], self.e.index(rest)
        before, count = begins[-2] * channels, own[-2] * channels
        with self.e.when(inside):
            self._fill(to, before)
            self._copy_pixels(source, to + before)
            self._fill(to + (before + count), pixels * channels - before - count)
        if any(begins) or shape != own:
            with self.e.when(~inside):
                self._fill(to, pixels * channels)

    def _fill(self, to: Pointer, count: int) -> None:
        """Zero points."""
        byte = self.zero
        lanes = self.e.lanes(self.reading.dtype)
        whole = count - count % lanes
        with self.e.loop(whole, step=lanes) as i:
            to.store(byte.splat(lanes), i)
        with self.e.loop(count, start=whole) as i:
            to.store(byte, i)

    def _fill_pixels(self, source: Pointer, to: Pointer) -> None:
        """The same where channels are filled up."""
        (pixels, channels), strides = self.reading.own_shape[-2:], self.reading.own_strides[-2:]
        filled = self.reading.shape[-1]
        with self.e.loop(pixels, name="pixel") as pixel:
            made = to + pixel * filled
            self._copy_run(source + pixel * strides[0], made, channels, strides[1])
            self._fill(made + channels, filled - channels)

    def _copy_pixels(self, source: Pointer, to: Pointer) -> None:
        """What x has along its last two axes; without gaps it is one run."""
        own, strides = self.reading.own_shape[-2:], self.reading.own_strides[-2:]
        if self.reading.shape[-1] != own[-1]:
            self._fill_pixels(source, to)
            return
        axes = Axes.merged(own, strides)
        if len(axes.extents) > 1:
            with self.e.loop(own[0], name="pixel") as pixel:
                start = source + pixel * strides[0]
                self._copy_run(start, to + pixel * own[1], own[1], strides[1])
        else:
            self._copy_run(source, to, math.prod(own), (*axes.strides, 1)[0])

    def _copy_run(self, source: Pointer, to: Pointer, count: int, stride: int) -> None:
        done = self._copy_words(source, to, count) if stride == 1 and self._by_words else 0
        source, to, count = source + done, to + done, count - done
        lanes = self.e.lanes(self.reading.dtype) if stride == 1 and not done else 1
        whole = count - count % lanes
        with self.e.loop(whole, step=lanes) as i:
            to.store(self._read((source + i * stride).load(0, lanes)), i)
        with self.e.loop(count, start=whole) as i:
            to.store(self._read((source + i * stride).load()), i)

    @property
    def _by_words(self) -> bool:
        """Whether four bytes are copied at once, and may be widened."""
        same = self.reading.dtype in (self.reading.x.type.dtype, i16)
        return same and self.p.target.bytes_of_scalars

    def _copy_words(self, source: Pointer, to: Pointer, count: int) -> int:
        """Copy bytes, four at a time, as far as that goes; how many."""
        done, bytes_of = 0, self.reading.x.type.dtype
        for words in (MOST_WORDS, 1):
            size = words * QUAD
            stop = count - (count - done) % size
            with self.e.loop(stop, start=done, step=size) as i:
                for place in range(0, size, QUAD):
                    word = (source + (i + place)).cast(i32).load(align=1)
                    target = to + (i + place)
                    if self.reading.dtype is bytes_of:
                        target.cast(i32).store(word, align=1)
                        continue
                    first, last = widen_in_order(word, signed=bytes_of.is_signed)
                    target.cast(i32).store(first, align=2)
                    (target + 2).cast(i32).store(last, align=2)
            done = stop
        return done

    def _read(self, x: Value) -> Value:
        """Bytes of x in the type that is read: 128 more or less where the sign of bytes differs."""
        dtype = self.reading.dtype
        if dtype.bits > x.dtype.bits:
            return convert(x, dtype)
        return x if x.dtype is dtype else reinterpret(x ^ (0x80 if x.dtype is u8 else -0x80), dtype)
