"""The instruction set of Ember as data: tiles of memory, instructions, and what they cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

import numpy as np

SCRATCHPAD_BYTES = 256 * 1024
ARRAY = 16
"""Rows and columns of the systolic array."""
LANES = 32
"""Lanes of the vector unit."""
FLOPS = 512 / 6
"""FLOPs of f32 that the array computes in a cycle: a product of f32 takes six passes."""
DMA_BYTES = 4
"""Bytes that DMA moves in a cycle."""
RATES = DMA_BYTES * 1e9, FLOPS * 1e9
"""The same in a second, at 1 GHz."""
BURST = 16
"""Bytes of a DRAM burst: a run of neighbouring bytes takes whole bursts."""
LATENCY = 64
"""Cycles from the start of a transfer to its first byte."""
FILL = 2 * ARRAY
"""Cycles from the first operands of a product to its first sum."""
MOST_AXES = 6

NUMPY: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
    "bf16": np.dtype(np.uint16),
    "u64": np.dtype(np.uint64),
    "u128": np.dtype(np.complex128),
}
"""Element types, and how the simulator holds them; u64 and u128 can only be moved."""


_TILE = re.compile(r"(\w+)\[([\d,]*)\]@(?:(\w+)\+)?(\d+)(?:\(([-\d,]*)\))?")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, filter(None, text.split(","))))


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides, in elements, of elements that lie one after the other."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


@dataclass(frozen=True, slots=True)
class View:
    """A tile: elements at `offset` bytes of a memory, `strides` elements apart along each axis.

    `base` names a base register, which points into DRAM; without one the tile is in the scratchpad.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]
    base: str = ""

    @property
    def size(self) -> int:
        """The number of elements, those that strides of 0 repeat counted each time."""
        return prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one behind the last."""
        width = NUMPY[self.dtype].itemsize
        reach = [(n - 1) * stride for n, stride in zip(self.shape, self.strides, strict=True)]
        before, after = sum(min(n, 0) for n in reach), sum(max(n, 0) for n in reach)
        return self.offset + before * width, self.offset + (after + 1) * width

    def __str__(self) -> str:
        place = f"{self.base}+{self.offset}" if self.base else str(self.offset)
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]@{place}"
        if self.strides == dense(self.shape):
            return text
        return f"{text}({','.join(map(str, self.strides))})"

    @staticmethod
    def parse(text: str) -> View:
        """The tile that is written so."""
        match = _TILE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no tile")
        dtype, extents, base, offset, steps = match.groups()
        shape = _numbers(extents)
        strides = dense(shape) if steps is None else _numbers(steps)
        return View(dtype, shape, int(offset), strides, base or "")

    def array(self, memory: np.ndarray) -> np.ndarray:
        """The elements, in place, in a memory of bytes."""
        dtype = NUMPY[self.dtype]
        strides = tuple(stride * dtype.itemsize for stride in self.strides)
        return np.ndarray(self.shape, dtype, memory, self.offset, strides)


@dataclass(frozen=True, slots=True)
class Instr:
    """An instruction: its name, its tiles and immediate numbers (the result first), its fields."""

    name: str
    operands: tuple[View | float, ...] = ()
    fields: tuple[tuple[str, int], ...] = ()

    @property
    def tiles(self) -> tuple[View, ...]:
        """The operands but for immediate numbers."""
        return tuple(operand for operand in self.operands if isinstance(operand, View))

    def field(self, name: str, default: int = 0) -> int:
        """The value of a field."""
        return dict(self.fields).get(name, default)


VECTOR_CYCLES = {
    **dict.fromkeys(("copy", "cast", "add", "sub", "mul", "max", "min", "abs", "neg"), 1),
    **dict.fromkeys(("floor", "ceil", "round", "equal", "less", "less_equal", "where"), 1),
    **dict.fromkeys(("and", "or", "not"), 1),
    **dict.fromkeys(("div", "sqrt"), 4),
    **dict.fromkeys(("exp", "expm1", "log", "log1p", "sin", "cos", "atan", "tanh", "erf"), 8),
    "pow": 16,
}
"""Cycles in which the vector unit computes an element in each lane, by the name behind `v.`."""
REDUCTIONS = ("add", "max", "mul")
"""What `r.` can combine elements by, an element in each lane and cycle."""


def transfer_cycles(dram: View) -> int:
    """The cycles of a transfer, by how its elements lie in DRAM."""
    width, run, axes = NUMPY[dram.dtype].itemsize, 1, len(dram.shape)
    while axes and (dram.shape[axes - 1] == 1 or dram.strides[axes - 1] == run):
        run *= dram.shape[axes - 1]
        axes -= 1
    bursts = -(-run * width // BURST) * (dram.size // max(run, 1))
    return LATENCY + bursts * BURST // DMA_BYTES


def compute_cycles(instr: Instr) -> int:
    """The cycles of the array or of the vector unit."""
    unit, _, name = instr.name.partition(".")
    if unit == "mm":
        _, a, w = instr.tiles
        (k, n), rows = w.shape, prod(a.shape[:-1])
        blocks = -(-k // ARRAY) * -(-n // ARRAY)
        return FILL + instr.field("passes", 1) * blocks * max(rows, ARRAY)
    if unit == "v":
        return 8 + VECTOR_CYCLES[name] * -(-instr.tiles[0].size // LANES)
    return 8 + -(-instr.tiles[1].size // LANES)


def multiplications(instr: Instr) -> int:
    """The products that the array forms, each pass counted; 0 for other instructions."""
    if not instr.name.startswith("mm"):
        return 0
    _, a, w = instr.tiles
    return instr.field("passes", 1) * a.size * w.shape[1]
