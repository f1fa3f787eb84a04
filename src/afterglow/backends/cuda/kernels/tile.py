"""The shape of the work of one program of a product, and how many there are."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.instr import KernelPlan
from afterglow.instr.kernel_plan import Setting
from afterglow.support.lazy_dataclass import dataclass

TILE = "tile"
"""The algorithm that multiplies blocks by tensor cores."""
PARTIALS = "partials"
"""The workspace of sums over a share of the terms."""
SUM_BYTES = 4
"""Bytes of a sum, of f32 or i32."""
LEAST_TERMS = 16
"""Terms of the smallest block that tensor cores multiply; 32 of bytes."""
MOST_SUMS = 64
"""Sums of a thread that leave it registers for other things."""
THREADS = 32
"""Of a warp."""
REGISTERS, MOST_REGISTERS = 65536, 255
"""Registers of a multiprocessor, and of a thread at most."""
IEEE = "ieee"
"""Products of f32 are rounded as f32 is."""


@dataclass(frozen=True)
class Extents:
    """What products there are: rows and columns of each, and terms of a sum."""

    rows: int
    columns: int
    terms: int
    count: int = 1
    """How many products: one a matrix of a batch, or one a group of channels."""


@dataclass(frozen=True)
class Tile:
    """The block of results that a program computes, and the terms that it takes at a time."""

    rows: int
    columns: int
    terms: int
    warps: int
    stages: int
    """Blocks of operands that are on their way at once."""
    splits: int = 1
    """Programs that share the terms of a block of results."""
    early: bool = False
    """Whether what the epilogue reads is asked for ahead of the loop over terms."""
    precision: str = IEEE
    """How products of f32 are computed: `ieee`, `tf32x3` or `tf32`."""

    @staticmethod
    def of(settings: Mapping[str, Setting]) -> Tile:
        """The tile that a plan says."""
        shape = settings["tile"]
        assert isinstance(shape, tuple)
        rows, columns, terms = shape
        warps, stages, splits = (
            _number(settings.get(name, 1)) for name in ("warps", "stages", "split")
        )
        early, precision = bool(settings.get("early")), str(settings.get("precision", IEEE))
        return Tile(rows, columns, terms, warps, stages, splits, early, precision)

    @property
    def settings(self) -> dict[str, Setting]:
        """The same as settings of a plan."""
        settings: dict[str, Setting] = {
            "tile": (self.rows, self.columns, self.terms),
            "warps": self.warps,
            "stages": self.stages,
        }
        if self.splits > 1:
            settings["split"] = self.splits
        if self.early:
            settings["early"] = 1
        if self.precision != IEEE:
            settings["precision"] = self.precision
        return settings

    @property
    def leaves_registers(self) -> bool:
        """Whether threads can keep what the epilogue reads for each column."""
        return self.rows * self.columns <= MOST_SUMS * THREADS * self.warps

    @property
    def registers_of_two(self) -> int:
        """Registers of a thread with which a multiprocessor holds two programs; 0 for any."""
        limit = REGISTERS // (2 * THREADS * self.warps)
        return limit if limit <= MOST_REGISTERS else 0

    def tiles(self, extents: Extents) -> tuple[int, int]:
        """How many blocks there are of rows, and of columns."""
        return -(-extents.rows // self.rows), -(-extents.columns // self.columns)

    def blocks(self, extents: Extents) -> int:
        """How many blocks of results there are in all."""
        down, across = self.tiles(extents)
        return down * across * extents.count

    def partial_bytes(self, extents: Extents) -> int:
        """The memory of sums over shares of the terms."""
        if self.splits == 1:
            return 0
        return self.blocks(extents) * self.splits * self.rows * self.columns * SUM_BYTES

    def plan(self, extents: Extents, cost: float, algorithm: str = TILE) -> KernelPlan:
        """The plan of a product in such tiles."""
        partials = self.partial_bytes(extents)
        workspace = {PARTIALS: partials} if partials else {}
        return KernelPlan(algorithm, self.settings, cost, workspace)


def _number(setting: Setting) -> int:
    assert isinstance(setting, int)
    return setting
