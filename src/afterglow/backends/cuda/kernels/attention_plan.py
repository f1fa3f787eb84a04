"""How the work of an attention is divided between programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from afterglow.backends.cuda.kernels.costs import LAUNCH_SECONDS
from afterglow.backends.cuda.kernels.lines import power_of_two
from afterglow.backends.cuda.kernels.online import room_of
from afterglow.backends.cuda.target import CudaTarget
from afterglow.instr import KernelPlan
from afterglow.instr.kernel_plan import Setting
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType, f32

ALGORITHM = "attention"
PARTIALS = "partials"
LEAST = 16
"""Rows, columns and terms of the smallest block that tensor cores multiply."""
_MOST_ROWS = 128
_MOST_SHARES = 32
_EFFICIENCY = {16: 0.1, 32: 0.18, 64: 0.4, 128: 0.5}
"""The part of the peak of tensor cores that blocks of so many rows reach, about."""
_F32_SLOWER = 16
"""The same for products of f32, each of which is several of narrower floats."""
_SECONDS_PER_BLOCK, _SECONDS_PER_KEY = 0.4e-6, 4e-9
"""The time of a block of keys in a program that is alone on its multiprocessor, about."""
_WAIT = {1: 2.0, 2: 1.0, 3: 0.9}
"""The part of that time that is left with so many blocks on their way."""
_SECONDS_BETWEEN_BLOCKS = 0.05e-6
_COMBINING_SECONDS = 1e-6
_SHOWN = 0.1
"""The part of the shorter of arithmetic and memory that the longer one does not hide."""
_REGISTERS, _OTHER_REGISTERS, _MOST_REGISTERS = 65536, 60, 144
"""Those of a multiprocessor; those of a thread besides sums and scores, and for these."""
_MOST_PLANS = 8


@dataclass(frozen=True)
class AttentionExtents:
    """The extents of an attention whose queries are rows of blocks."""

    groups: int
    """Sets of rows that see the same keys: images, and heads of each."""
    rows: int
    """Queries of a group, of all the heads that share its keys."""
    keys: int
    width: int
    columns: int
    dtype: DType
    """Of what is multiplied."""
    moved: int
    """Bytes that are read and written."""
    part: float = 1.0
    """The part of the scores that is computed, if a causal mask hides others."""

    @property
    def flops(self) -> float:
        """Operations in all."""
        pairs = self.groups * self.rows * self.keys * self.part
        return 2 * pairs * (self.width + self.columns)


@dataclass(frozen=True)
class AttentionTile:
    """A block of rows with a block of keys, and how many programs share the keys of a row."""

    rows: int
    keys: int
    warps: int
    stages: int
    shares: int = 1
    precision: str = ""
    """How products of f32 are computed."""

    @staticmethod
    def of(plan: KernelPlan) -> AttentionTile:
        """What a plan says."""
        tile, precision = plan.settings["tile"], plan.settings.get("precision", "")
        warps, stages = plan.settings["warps"], plan.settings["stages"]
        shares = plan.settings.get("shares", 1)
        assert isinstance(tile, tuple)
        assert isinstance(warps, int)
        assert isinstance(stages, int)
        assert isinstance(shares, int)
        rows, keys = tile
        return AttentionTile(rows, keys, warps, stages, shares, str(precision))

    @property
    def settings(self) -> Mapping[str, Setting]:
        """As a plan holds it."""
        settings: dict[str, Setting] = {
            "tile": (self.rows, self.keys),
            "warps": self.warps,
            "stages": self.stages,
        }
        if self.shares > 1:
            settings["shares"] = self.shares
        if self.precision:
            settings["precision"] = self.precision
        return settings

    @property
    def options(self) -> str:
        """The arguments of products besides the operands."""
        return f', input_precision="{self.precision}"' if self.precision else ""

    def each(self, keys: int) -> int:
        """The keys of a program, whole blocks of them."""
        return -(-keys // (self.shares * self.keys)) * self.keys

    def programs(self, extents: AttentionExtents) -> int:
        """How many there are, if none share keys."""
        return extents.groups * -(-extents.rows // self.rows)


def padded(extent: int) -> int:
    """The extent of a block that holds a row of so many elements."""
    return max(LEAST, power_of_two(extent))


def attention_plans(extents: AttentionExtents, target: CudaTarget) -> list[KernelPlan]:
    """The ways to divide the work, the cheapest first."""
    usual = [*_tiles(extents, target)]
    tiles = usual or [*_shared(extents, LEAST, LEAST, 1, target)]
    found = [_plan(extents, tile, target) for tile in dict.fromkeys(tiles)]
    return sorted(found, key=lambda plan: plan.cost)[:_MOST_PLANS]


def _tiles(extents: AttentionExtents, target: CudaTarget) -> Iterator[AttentionTile]:
    most = min(_MOST_ROWS, padded(extents.rows))
    rows = LEAST
    while rows <= most:
        for keys in (32, 64, 128):
            for stages in (2, 3):
                if _fits(extents, rows, keys, stages, target):
                    yield from _shared(extents, rows, keys, stages, target)
        rows *= 2


def _shared(
    extents: AttentionExtents, rows: int, keys: int, stages: int, target: CudaTarget
) -> Iterator[AttentionTile]:
    precision = "" if extents.dtype is not f32 else "ieee" if rows == LEAST else "tf32x3"
    for warps in (4, 2) if rows == LEAST else (_warps(rows, extents),):
        alone = AttentionTile(rows, keys, warps, stages, 1, precision)
        yield alone
        blocks = -(-extents.keys // keys)
        room = target.units // max(1, alone.programs(extents))
        shares = min(_MOST_SHARES, blocks, room)
        if shares > 1 and extents.part == 1:
            shares = -(-blocks // -(-blocks // shares))
            yield AttentionTile(rows, keys, warps, stages, shares, precision)


def _warps(rows: int, extents: AttentionExtents) -> int:
    """Enough to hold the sums in registers."""
    wide = padded(extents.columns) > 128 and rows >= 64
    return max(4, rows // 16) * (2 if wide else 1)


def _fits(extents: AttentionExtents, rows: int, keys: int, stages: int, target: CudaTarget) -> bool:
    """Whether blocks fit in shared memory, and sums in registers."""
    width, columns = padded(extents.width), padded(extents.columns)
    size = max(2, extents.dtype.itemsize)
    # products of f32 by parts keep the low parts of operands, too
    copies = 2 if extents.dtype is f32 and rows > LEAST else 1
    held = (stages + copies - 1) * keys * (width + columns) + copies * rows * width
    shared = held * size
    warps = _warps(rows, extents)
    registers = (rows * columns + 2 * rows * keys) / (warps * 32)
    room = min(_MOST_REGISTERS, _REGISTERS // (warps * 32) - _OTHER_REGISTERS)
    needed = keys <= 32 or keys < 2 * max(1, extents.keys)
    return needed and shared <= target.shared_bytes and registers <= room


def _plan(extents: AttentionExtents, tile: AttentionTile, target: CudaTarget) -> KernelPlan:
    room = _partial_bytes(extents, tile)
    workspace = {PARTIALS: room} if room else {}
    seconds = _seconds(extents, tile, target)
    return KernelPlan(ALGORITHM, tile.settings, target.cost_of(seconds), workspace)


def _partial_bytes(extents: AttentionExtents, tile: AttentionTile) -> int:
    """The memory of what programs found that share keys."""
    if tile.shares == 1:
        return 0
    programs = tile.programs(extents) * tile.shares
    return room_of(tile.rows, padded(extents.columns)) * f32.itemsize * programs


def _seconds(extents: AttentionExtents, tile: AttentionTile, target: CudaTarget) -> float:
    """The time of the busiest multiprocessor, or that of memory."""
    programs = tile.programs(extents) * tile.shares
    blocks = -(-extents.keys // (tile.keys * tile.shares)) * extents.part
    width = padded(extents.width) + padded(extents.columns)
    peak = target.tensor_flops / (1 if extents.dtype is not f32 else _F32_SLOWER)
    each = 2 * tile.rows * tile.keys * width / (peak * _EFFICIENCY[tile.rows] / target.units)
    each += _SECONDS_BETWEEN_BLOCKS
    rounds = -(-programs // target.units)
    waiting = _SECONDS_PER_BLOCK * _WAIT[tile.stages] + _SECONDS_PER_KEY * tile.keys
    steps = blocks * max(waiting, each)
    busy = min(1.0, programs / target.units)
    memory = extents.moved / (target.bandwidth * busy)
    combining = 2 * _partial_bytes(extents, tile) / target.bandwidth
    combining += _COMBINING_SECONDS if tile.shares > 1 else 0
    repeated = max(blocks * each * rounds, steps * max(1.0, rounds / 2))
    shown = _SHOWN * min(repeated, memory)
    return LAUNCH_SECONDS + max(repeated, memory) + shown + combining
