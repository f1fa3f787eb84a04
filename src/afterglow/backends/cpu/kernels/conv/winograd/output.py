"""Winograd's output transform: the matrices of all places become tiles of the result."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.conv.columns import Columns
from afterglow.backends.cpu.kernels.conv.winograd.plan import WinogradPlan
from afterglow.backends.cpu.kernels.conv.winograd.transforms import transform_output
from afterglow.backends.cpu.llvm.emitter import Index, Pointer, Value, smaller
from afterglow.backends.cpu.micro.kernel import Phase
from afterglow.backends.cpu.micro.rows import split


class OutputTransform:
    """Writes the transform of tiles of one panel's channels, in one phase."""

    def __init__(self, p: Phase, plan: WinogradPlan, bias: Pointer | None) -> None:
        self.e, self.plan, self.bias = p.e, plan, bias
        self.sink = p.sink()
        self.between = p.scratch("between")

    def write(self, tile: Index, products: Pointer, columns: Columns) -> None:
        """Put one tile, given its number among all and its row of the first place's products."""
        e, plan = self.e, self.plan
        size, side, width = plan.size, plan.side, columns.width
        with e.loop(side, name="column") as x:
            for start, lanes in columns.vectors:
                place = products + x * plan.product
                line = [place.load(y * side * plan.product + start, lanes) for y in range(side)]
                for y, value in enumerate(transform_output(line, plan.points)):
                    (self.between + x * width).store(value, y * side * width + start)
        row, left, first = self._corner(tile)
        height, across = plan.extents
        rows: Index = size if height % size == 0 else smaller(e.index(height) - row, size)
        with e.loop(rows, name="row") as below:
            here = self.between + below * (side * width)
            self._put_row(here, first + below * across, left, columns)

    def _corner(self, tile: Index) -> tuple[Value, Value, Value]:
        """Where a tile begins: row and columns left in the image, and the number of its pixel."""
        e, plan = self.e, self.plan
        (down, across), (height, width) = plan.grid, plan.extents
        rest, column = split(tile, across)
        image, row = split(rest, down)
        y, x = e.index(row) * plan.size, e.index(column) * plan.size
        first = (e.index(image) * height + y) * width + x
        return y, e.index(width) - x, first

    def _put_row(self, here: Pointer, first: Value, left: Value, columns: Columns) -> None:
        """Put neighbouring pixels, those of them that are in the image."""
        plan = self.plan
        places = [columns.load(here + x * columns.width) for x in range(plan.side)]
        lines = [transform_output(line, plan.points) for line in zip(*places, strict=True)]
        if self.bias is not None:
            biases = columns.load(self.bias + columns.first)
            lines = [[v + bias for v in line] for line, bias in zip(lines, biases, strict=True)]
        for x, pixel in enumerate(zip(*lines, strict=True)):
            if plan.extents[1] % plan.size != 0 and x:
                with self.e.when(left > x):
                    columns.put(self.sink, first + x, pixel)
            else:
                columns.put(self.sink, first + x, pixel)
