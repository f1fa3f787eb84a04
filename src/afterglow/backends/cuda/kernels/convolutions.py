"""The operands of convolutions, as blocks of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from afterglow.backends.broadcast import merge_alike
from afterglow.backends.cuda.kernels.channels import Channels
from afterglow.backends.cuda.kernels.conv_layout import ConvLayout
from afterglow.backends.cuda.kernels.kernel import Kernel
from afterglow.backends.cuda.kernels.products import Block
from afterglow.backends.cuda.kernels.tile import Tile
from afterglow.backends.cuda.kernels.tile_blocks import is_between, load, multiply_add
from afterglow.backends.cuda.kernels.tile_results import Places, places_by_row
from afterglow.backends.cuda.tl import Pointer, Value
from afterglow.backends.cuda.tl.code import offset
from afterglow.backends.items.chain import places_of
from afterglow.backends.pointwise.vocabulary import select
from afterglow.types import Array


class Windows(Channels):
    """Floats of the windows of x, and those of a weight."""

    own_steps = None

    def __init__(self, kernel: Kernel, tile: Tile) -> None:
        super().__init__(kernel, tile)
        self.layout = ConvLayout(kernel.step)
        self.extents = self.layout.extents
        self.steps = self.layout.steps(tile.terms)
        self.is_packed = self.layout.packs(tile.terms)
        self.pitch = self.steps * tile.terms if self.is_packed else self.extents.terms
        """Elements of the weight from one column to the next."""

    def begin(self, block: Block) -> None:
        """Where the first window of each row begins, and the weight of each column."""
        code, layout = self.code, self.layout
        terms = code.range(self.tile.terms)
        self.left_terms, self.right_terms = (code.along(terms, axis, 2) for axis in (1, 0))
        rows, self.left_masks = block.rows.read(contiguous=False, axis=0)
        self._begin_windows(rows, block)
        columns, self.right_masks = block.columns.read(contiguous=False, axis=1)
        first = self.of_group(block, self.extents.columns * self.pitch)
        self.right_base = code.named(columns * self.pitch + first)
        self.seen = {
            axis: code.named(place * step - begin)
            for axis, (place, step, begin) in enumerate(
                zip(
                    places_of(self.kernel, rows, layout.shape[:-1])[1:],
                    layout.windows.strides,
                    layout.windows.begins,
                    strict=True,
                )
            )
            if layout.reaches_beyond(axis)
        }
        if layout.line:
            self._begin_line(rows)
        self.read_bias_early(block)

    def _begin_windows(self, rows: Value, block: Block) -> None:
        """Where in x the windows of rows begin, or the lines of those."""
        code, layout = self.code, self.layout
        extents, (steps,) = merge_alike(layout.shape[:-1], [layout.step_strides])
        base = offset(code, places_of(self.kernel, rows, extents), steps)
        before = layout.begin + (layout.lead if layout.line else 0)
        group = self.of_group(block, layout.channels * layout.x.strides[-1])
        self.left_base = code.named(base - before + group)

    def _begin_line(self, rows: Value) -> None:
        """Which elements of a line are in x, and which of them belong to a window."""
        code, layout = self.code, self.layout
        last, channels = len(layout.spatial) - 1, layout.channels
        self.seen.pop(last, None)
        place = places_of(self.kernel, rows, layout.shape[:-1])[-1]
        step, begin = layout.windows.strides[-1] * channels, layout.windows.begins[-1] * channels
        first = code.named(place * step - (begin + layout.lead))
        at = code.named(first + self.left_terms)
        self.line_mask = is_between(at, layout.spatial[-1] * channels)
        own = self.left_terms - layout.lead
        self.of_window = is_between(code.named(own), layout.line_elements)

    def multiply(self, step: Value, total: Value) -> None:
        """Add the product of two blocks."""
        left, right = self.left(step), self.right(step)
        multiply_add(self.code, left, right, total, self.tile.precision)

    def left(self, step: Value, fill: Value | float = 0) -> Value:
        """A block of windows."""
        if self.layout.line:
            return self._line(step, fill)
        layout = self.layout
        tap, terms, masks = self.channels_of(step, self.left_terms, layout.channels)
        shift, inside = self._tap(tap, layout.windows.kernel)
        place = self.left_base + (shift + terms * layout.x.strides[-1])
        return load(self.kernel.pointer(layout.x), place, [*inside, *self.left_masks, *masks], fill)

    def _line(self, step: Value, fill: Value | float) -> Value:
        """A block of lines of windows; what is read in front of them and behind is left out."""
        layout = self.layout
        shift, inside = self._tap(step, layout.windows.kernel[:-1])
        place = self.left_base + (shift + self.left_terms)
        x = self.kernel.pointer(layout.x)
        read = load(x, place, [*inside, *self.left_masks, self.line_mask], fill)
        if layout.line_elements == layout.line:
            return read
        rest = fill if isinstance(fill, Value) else self.code.constant(read.dtype, fill)
        return select(self.of_window, read, rest)

    def _tap(self, tap: Value, kernel: Sequence[int]) -> tuple[Value, list[Value]]:
        """How far a place of windows is behind their first, and whether it is in x."""
        code, layout = self.code, self.layout
        if math.prod(kernel) == 1:
            shift, taps = code.index(0), [code.index(0) for _ in kernel]
        else:
            taps = places_of(self.kernel, tap, kernel)
            strides = layout.x.strides[1:-1]
            steps = zip(taps, layout.windows.dilations, strides, strict=False)
            shift = code.named(sum((t * (d * s) for t, d, s in steps), start=code.index(0)))
        dilations = layout.windows.dilations
        masks = [
            is_between(code.named(corner + taps[axis] * dilations[axis]), layout.spatial[axis])
            for axis, corner in self.seen.items()
        ]
        return shift, masks

    def right(self, step: Value) -> Value:
        """A block of the weight."""
        code, layout, size = self.code, self.layout, self.tile.terms
        if self.is_packed or layout.channels % size == 0:
            pointer = self.packed() if self.is_packed else self.kernel.pointer(layout.weight)
            terms = code.named(step * size) + self.right_terms
            return load(pointer, self.right_base + terms, self.right_masks)
        blocks = layout.blocks(size)
        tap = step if blocks == 1 else code.named(step.combined("/", blocks))
        own = self.right_terms
        if blocks > 1:
            own = code.named(code.named(step.combined("%", blocks) * size) + own)
        place = self.right_base + (code.named(tap * layout.channels) + own)
        masks = [*self.right_masks, own < layout.channels]
        return load(self.kernel.pointer(layout.weight), place, masks)

    @property
    def order(self) -> str:
        """What tells copies of the weight apart."""
        layout, size = self.layout, self.tile.terms
        return f"lines of {size} from {layout.lead}" if layout.line else f"blocks of {size}"

    def packed(self) -> Pointer:
        """The weight by columns, with zeros behind each block of terms."""
        return self.kernel.packed(self.layout.weight, self.order, self.pack)

    def pack(self, data: Array) -> Array:
        """The weight as it is read."""
        layout, size = self.layout, self.tile.terms
        columns = data.shape[0]
        if layout.line:
            lines = data.reshape(columns, -1, layout.line_elements)
            behind = size - layout.lead - layout.line_elements
            return np.pad(lines, ((0, 0), (0, 0), (layout.lead, behind))).reshape(columns, -1)
        blocks = data.reshape(columns, layout.taps, layout.channels)
        behind = -layout.channels % size
        return np.pad(blocks, ((0, 0), (0, 0), (0, behind))).reshape(columns, -1)

    def places(self, block: Block) -> Places:
        """Rows are the places of all images."""
        return places_by_row(self.kernel, [], block.rows.along(0), self.column(block))
