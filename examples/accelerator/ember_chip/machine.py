"""The simulator: instructions on real bytes, and the rules that programs must keep."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from ember_chip.clock import Clock, Section
from ember_chip.isa import (
    MOST_AXES,
    NUMPY,
    REDUCTIONS,
    SCRATCHPAD_BYTES,
    VECTOR_CYCLES,
    Instr,
    View,
)


class ChipError(Exception):
    """A program that breaks a rule of the chip, and the instruction that does."""


_erf = np.vectorize(math.erf, [np.float32])
_VECTOR: dict[str, Callable[..., np.ndarray]] = {
    "copy": np.positive,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "neg": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "equal": np.equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "where": np.where,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.bitwise_not,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "tanh": np.tanh,
    "erf": lambda x: _erf(x) if x.size else x,
    "pow": np.power,
}
_REDUCE = {"add": np.add, "max": np.maximum, "mul": np.multiply}
_PASSES = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0))
"""The pieces of both operands that passes multiply; the last ones are summed first."""
_OPERANDS = {"load": 2, "store": 2, "wait": 0, "host": 0, "mark": 0, "mm.set": 3, "mm.add": 3}


class Machine:
    """A chip with its scratchpad, DRAM as arrays of bytes by base register, and a host to ask."""

    def __init__(
        self, dram: Mapping[str, np.ndarray], host: Callable[[int], None] | None = None
    ) -> None:
        self.dram = dram
        self.host = host
        self.scratchpad = np.full(SCRATCHPAD_BYTES, 0xFF, np.uint8)
        self.clock = Clock()
        self.in_flight: dict[int, Instr] = {}
        """Transfers that nobody waited for yet, by tag, in the order of the queue."""

    def run(self, program: Iterable[Instr]) -> Section:
        """Run a program to its end, and count cycles."""
        with np.errstate(all="ignore"):
            for instr in program:
                try:
                    self._execute(instr)
                except ChipError as error:
                    raise ChipError(f"{error}\n  in {instr}") from None
                self.clock.tick(instr)
        return self.clock.finish()

    def _execute(self, instr: Instr) -> None:
        unit, _, name = instr.name.partition(".")
        if instr.name in _OPERANDS and len(instr.operands) != _OPERANDS[instr.name]:
            raise ChipError(f"{instr.name} has {len(instr.operands)} operands")
        match unit:
            case "load" | "store":
                self._transfer(instr)
            case "wait":
                self._wait(instr.field("tag"))
            case "host":
                self.in_flight.clear()
                if self.host is not None:
                    self.host(instr.field("step"))
            case "mm":
                self._multiply(instr)
            case "v" if name in VECTOR_CYCLES:
                self._vector(name, instr)
            case "r" if name in REDUCTIONS:
                self._reduce(name, instr)
            case "mark":
                pass
            case _:
                raise ChipError(f"there is no instruction {instr.name!r}")

    def _transfer(self, instr: Instr) -> None:
        """Queue a transfer. It is done at once here; that nobody uses it too early is checked."""
        tag = instr.field("tag")
        if tag in self.in_flight:
            raise ChipError(f"transfer {tag} is in flight already")
        target, source = instr.tiles
        inside, outside = (target, source) if instr.name == "load" else (source, target)
        if inside.base or not outside.base:
            raise ChipError("a transfer is between DRAM and the scratchpad")
        if (target.shape, target.dtype) != (source.shape, source.dtype):
            raise ChipError("a transfer does not change the shape or the type of a tile")
        if outside.size:
            self._array(target)[...] = self._array(source)
        self.in_flight[tag] = instr

    def _wait(self, tag: int) -> None:
        """The queue is in order: what was queued before is done as well."""
        if tag in self.in_flight:
            for earlier in list(self.in_flight):
                del self.in_flight[earlier]
                if earlier == tag:
                    break

    def _multiply(self, instr: Instr) -> None:
        acc, a, w = instr.tiles
        left, right, total = self._read(a), self._read(w), self._write(acc)
        if total.shape != (*left.shape[:-1], right.shape[1]) or left.shape[-1] != right.shape[0]:
            raise ChipError("the shapes of a product do not fit")
        integers = acc.dtype == "i32"
        if integers != (a.dtype in ("i8", "u8")) or integers != (w.dtype in ("i8", "u8")):
            raise ChipError("the array adds bytes up to i32, and floats to f32")
        rows = left.reshape(-1, left.shape[-1])
        if integers:
            x = rows.astype(np.float64) - instr.field("a_zero")
            product = (x @ (right.astype(np.float64) - instr.field("w_zero"))).astype(np.int64)
        else:
            product = _products(rows, a.dtype, right, w.dtype, instr.field("passes", 1))
        product = product.astype(total.dtype).reshape(total.shape)
        total[...] = total + product if instr.name == "mm.add" else product

    def _vector(self, name: str, instr: Instr) -> None:
        out, *operands = instr.operands
        assert isinstance(out, View)
        given = [x if isinstance(x, View) else None for x in operands]
        like = next((x.dtype for x in reversed(given) if x is not None), out.dtype)
        like = out.dtype if name == "where" else like
        arrays = [
            np.array(x, NUMPY[like]) if not isinstance(x, View) else self._read(x) for x in operands
        ]
        if any(x is not None and x.shape != out.shape for x in given):
            raise ChipError("the tiles of a vector instruction have one shape")
        target = self._write(out)
        if name == "cast":
            narrow = arrays[0].dtype.kind == "f" and out.dtype in ("i8", "u8")
            result = (arrays[0].astype(np.int32) if narrow else arrays[0]).astype(target.dtype)
        else:
            result = _VECTOR[name](*arrays)
        if result.dtype != target.dtype:
            raise ChipError(f"{instr.name} gives {result.dtype}, not {target.dtype}")
        target[...] = result

    def _reduce(self, name: str, instr: Instr) -> None:
        """Combine into the result: it has stride 0 along the axes that elements are combined in."""
        out, source = instr.tiles
        if (out.shape, out.dtype) != (source.shape, source.dtype):
            raise ChipError("a reduction has one shape and one type")
        axes = tuple(i for i, stride in enumerate(out.strides) if stride == 0)
        first = tuple(slice(0, 1) if i in axes else slice(None) for i in range(len(out.shape)))
        target, combine = self._write(out)[first], _REDUCE[name]
        dtype = target.dtype
        target[...] = combine(
            target, combine.reduce(self._read(source), axes, dtype=dtype, keepdims=True)
        )

    def _read(self, view: View) -> np.ndarray:
        """A tile of the scratchpad that no transfer is writing."""
        self._check(view, "load", "reads what DMA has not finished writing")
        return self._array(view)

    def _write(self, view: View) -> np.ndarray:
        """A tile of the scratchpad that no transfer is using."""
        self._check(view, "store", "overwrites what DMA still reads")
        self._check(view, "load", "overwrites what DMA has not finished writing")
        return self._array(view)

    def _check(self, view: View, kind: str, rule: str) -> None:
        if view.base:
            raise ChipError("only DMA reads and writes DRAM")
        start, end = view.span
        for tag, instr in self.in_flight.items():
            if instr.name != kind:
                continue
            other = instr.tiles[kind == "store"]
            low, high = other.span
            if low < end and start < high and _overlap(view, other):
                raise ChipError(f"{rule}, transfer {tag}")

    def _array(self, view: View) -> np.ndarray:
        if view.base and view.base not in self.dram:
            raise ChipError(f"there is no base register {view.base!r}")
        memory = self.dram[view.base] if view.base else self.scratchpad
        start, end = view.span
        aligned = start % NUMPY[view.dtype].itemsize == 0
        if len(view.shape) > MOST_AXES:
            raise ChipError(f"a tile has {MOST_AXES} axes at most")
        if view.size and not (start >= 0 and end <= len(memory) and aligned):
            raise ChipError(f"bytes {start} to {end} of {view.base or 'the scratchpad'}: no tile")
        return view.array(memory)


def _overlap(one: View, other: View) -> bool:
    """Whether two tiles of the scratchpad have a byte in common."""
    used = np.zeros(SCRATCHPAD_BYTES, np.uint8)
    size = NUMPY[one.dtype].itemsize
    one.array(used)[...] = np.frombuffer(b"\1" * size, NUMPY[one.dtype])[0]
    return bool(other.array(used).any())


def _products(
    left: np.ndarray, left_type: str, right: np.ndarray, right_type: str, passes: int
) -> np.ndarray:
    """Products of bf16 summed in f32; the pieces of f32 are multiplied one pass after the other."""
    a, b = (
        _pieces(np.ascontiguousarray(x), dtype, passes)
        for x, dtype in ((left, left_type), (right, right_type))
    )
    chosen = _PASSES[:passes]
    if passes == 1:
        return a[0] @ b[0]
    rest = [_finite(a[0]), *a[1:]], [_finite(b[0]), *b[1:]]
    columns = np.concatenate([*(rest[0][i] for i, _ in chosen[:0:-1]), a[0]], axis=1)
    rows = np.concatenate([*(rest[1][j] for _, j in chosen[:0:-1]), b[0]], axis=0)
    return columns @ rows


def _pieces(x: np.ndarray, dtype: str, passes: int) -> list[np.ndarray]:
    """An f32 as the sum of three bf16, each what is left, cut off; for one pass it is rounded."""
    if dtype == "bf16":
        exact = (x.astype(np.uint32) << 16).view(np.float32)
        return [exact, np.zeros_like(exact), np.zeros_like(exact)]
    if passes == 1:
        return [_rounded(x)]
    pieces, rest = [], x
    for _ in range(3):
        piece = (rest.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        piece = np.where(np.isnan(rest), rest, piece) if not pieces else piece
        pieces.append(piece)
        rest = _finite(rest - piece)
    return pieces


def _rounded(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, nearest.view(np.float32))


def _finite(x: np.ndarray) -> np.ndarray:
    """Infinite pieces count in the first pass only: later ones would make NaN of them."""
    return np.where(np.isfinite(x), x, np.float32(0))
