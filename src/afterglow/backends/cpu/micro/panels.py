"""Panels: the columns of a matrix in groups of neighbouring vectors, the way factors are packed.

A packed matrix has its panels one after the other, and in each a line of all its columns for every
step along the depth.
"""

from __future__ import annotations

from afterglow.support.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Panels:
    """Columns cut into panels, `whole` equal ones and perhaps a narrower one.

    A panel is a few vectors side by side, each with its number of lanes. The last panel may have
    more lanes than there are columns.
    """

    columns: int
    whole: int
    widths: tuple[int, ...]
    last: tuple[int, ...] = ()

    @staticmethod
    def narrowed(columns: int, lanes: int, vectors: int) -> Panels:
        """Panels of some vectors; the columns left over have as few and as short ones as needed."""
        whole, rest = divmod(columns, vectors * lanes)
        full, odd = divmod(rest, lanes)
        short = (1 << (odd - 1).bit_length(),) if odd else ()
        return Panels(columns, whole, (lanes,) * vectors, (lanes,) * full + short)

    @staticmethod
    def filled(columns: int, lanes: int, vectors: int) -> Panels:
        """Panels that are all of the same width; the last one is filled up."""
        return Panels(columns, -(-columns // (vectors * lanes)), (lanes,) * vectors)

    @property
    def count(self) -> int:
        """The number of panels."""
        return self.whole + bool(self.last)

    @property
    def vectors(self) -> int:
        """Vectors of a whole panel."""
        return len(self.widths)

    @property
    def lanes(self) -> int:
        """Lanes of the vectors of a whole panel."""
        return self.widths[0]

    @property
    def width(self) -> int:
        """Columns of a whole panel."""
        return sum(self.widths)

    @property
    def kinds(self) -> list[tuple[int, int, tuple[int, ...]]]:
        """First panel, number and widths, of the whole panels and of the last one."""
        kinds = [(0, self.whole, self.widths), (self.whole, 1, self.last)]
        return [kind for kind in kinds if kind[1] and kind[2]]

    @property
    def padded(self) -> int:
        """Columns of all panels, those that the matrix does not have included."""
        return self.whole * self.width + sum(self.last)
