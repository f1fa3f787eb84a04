"""The columns of a panel: its vectors, and the result channels that they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from afterglow.backends.cpu.llvm.emitter import Emitter, Pointer, Value, constant_vector
from afterglow.backends.cpu.micro.fusion import Sink
from afterglow.backends.cpu.micro.panels import Panels
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import boolean


@dataclass(frozen=True)
class Columns:
    """Vectors with `widths` lanes; the first is for channel `first`, and `channels` are left."""

    widths: tuple[int, ...]
    first: Value
    channels: int

    @property
    def width(self) -> int:
        """Lanes of all vectors."""
        return sum(self.widths)

    @property
    def vectors(self) -> list[tuple[int, int]]:
        """The first column and the lanes of each vector."""
        return starts(self.widths)

    def load(self, row: Pointer) -> list[Value]:
        """All columns of a row in memory."""
        return [row.load(start, lanes) for start, lanes in self.vectors]

    def put(self, sink: Sink, number: Value, values: Iterable[Value]) -> None:
        """Give one row of a result to the steps after the convolution, then to memory."""
        row = sink.row(number)
        for (start, lanes), value in zip(self.vectors, values, strict=True):
            inside = [start + lane < self.channels for lane in range(lanes)]
            mask = None if all(inside) else constant_vector(value.code, boolean, inside)
            row.put(self.first + start, value, mask)


def starts(widths: Sequence[int]) -> list[tuple[int, int]]:
    """The first column and the lanes of each of neighbouring vectors."""
    return [(sum(widths[:number]), lanes) for number, lanes in enumerate(widths)]


def each_kind(e: Emitter, panels: Panels, group: Value, number: Value) -> Iterator[Columns]:
    """Write a block for each kind of panels; the one that a panel is of runs."""
    first = group * panels.columns + number * panels.width
    kinds = panels.kinds
    for start, _, widths in kinds:
        columns = Columns(widths, first, panels.columns - start * panels.width)
        if len(kinds) == 1:
            yield columns
            continue
        with e.when(number < panels.whole if start == 0 else number >= panels.whole):
            yield columns
