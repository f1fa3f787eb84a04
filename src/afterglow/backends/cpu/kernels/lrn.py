"""Local response normalization: each element is scaled by the squares of its neighbours.

The squares of a line are kept between zeros, so that its ends are like its middle.
"""

from __future__ import annotations

from afterglow.backends.cpu.kernels.table import kernel
from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value, fma, sqrt
from afterglow.backends.cpu.llvm.math import pow
from afterglow.backends.cpu.micro.access import (
    Reader,
    Writer,
    lines_along,
    open_sink,
    open_source,
)
from afterglow.backends.cpu.micro.cost import LRN_ELEMENT, work_of
from afterglow.backends.cpu.micro.kernel import Kernel, KernelNeeds, KernelRequest, Phase, Storage
from afterglow.backends.cpu.micro.reduction_line import Position, ReductionLine, each_line
from afterglow.backends.cpu.micro.reduction_lines import ReductionLines
from afterglow.ops.normalization import LRN
from afterglow.support.lazy_dataclass import dataclass

MOST_UNROLLED = 64
"""Neighbours that are added one by one in the code; more are a loop."""


@dataclass(frozen=True)
class _Squares:
    """The squares of a line with zeros around, which lie `stride` apart."""

    e: Emitter
    pointer: Pointer
    stride: int
    before: int

    def store(self, position: Position, x: Value) -> None:
        """Write the square at a position; it is 0 in lanes that do not count."""
        self.pointer.store(x * x, position.place + self.before * self.stride)

    def around(self, position: Position, size: int) -> Value:
        """The sum of `size` squares around a position."""
        first, lanes = self.pointer + position.place, position.line.lines.lanes
        total = first.load(0, lanes)
        if size > MOST_UNROLLED:
            return self.e.fold(
                size,
                [total],
                lambda neighbour, sums: [sums[0] + first.load(neighbour * self.stride, lanes)],
                start=1,
            )[0]
        for neighbour in range(1, size):
            total = total + first.load(neighbour * self.stride, lanes)
        return total


def _needs(r: KernelRequest) -> KernelNeeds:
    op = r.step.op
    assert isinstance(op, LRN)
    lines = lines_along(r, op.axis)
    size = lines.layout.rows * lines.room_of_row + (op.size - 1) * _stride(lines)
    return KernelNeeds(scratch={"squares": Storage(lines.dtype, size)})


def _stride(lines: ReductionLines) -> int:
    """How far apart squares of neighbours along a line lie."""
    return lines.room_of_row if lines.layout.across else 1


@kernel(LRN, needs=_needs)
def write_lrn(k: Kernel) -> None:
    """Write the kernel of local response normalization."""
    op, x = k.step.op, k.step.required[0]
    assert isinstance(op, LRN)
    lines = lines_along(k, op.axis)
    with k.phase(lines.units, work_of(x.type.size, LRN_ELEMENT)) as p:
        source = open_source(p, lines.layout.shape, lines.layout.source)
        sink = open_sink(p, lines.layout.shape, lines.layout.sink)
        squares = _open_squares(p, op, lines)
        each_line(p, lines, lambda line: _normalize(line, op, source, squares, sink))


def _open_squares(p: Phase, op: LRN, lines: ReductionLines) -> _Squares:
    pointer = p.scratch("squares")
    p.e.zero(pointer, p.kernel.needs.scratch["squares"].count)
    return _Squares(p.e, pointer, _stride(lines), (op.size - 1) // 2)


def _normalize(
    line: ReductionLine, op: LRN, source: Reader, squares: _Squares, sink: Writer
) -> None:
    line.each(lambda position: squares.store(position, position.load(source)))

    def put(position: Position) -> None:
        base = fma(squares.around(position, op.size), op.alpha / op.size, op.bias)
        position.put(sink, position.load(source) / _power(base, op.beta))

    line.each(put, unroll=1)


def _power(base: Value, beta: float) -> Value:
    """base to the beta; by roots for the exponents that networks have."""
    match beta:
        case 1.0:
            return base
        case 0.5:
            return sqrt(base)
        case 0.75:
            root = sqrt(base)
            return root * sqrt(root)
    return pow(base, base.like(beta))
