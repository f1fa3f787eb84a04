"""How attention of many queries is cut: queries into blocks, keys into parts and tiles."""

from __future__ import annotations

from math import isqrt

from afterglow.backends.cpu.kernels.attention.problem import AttentionProblem, lanes_of
from afterglow.backends.cpu.micro.kernel import Storage
from afterglow.backends.cpu.micro.tile import RegisterTile, most_rows, sum_type
from afterglow.backends.cpu.target import Target
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types.dtype import DType
from afterglow.types.extent import is_ranged, larger_extent, largest

MOST_KEYS = 512
"""Keys that are seen at a time, so that their scores stay in the second cache."""
LOW_TILE = 8
"""Rows of a tile beyond which it has one less than fits, or LLVM runs out of registers."""
VECTORS = 2
"""Vectors of a tile: of queries for the scores, of columns for the mixed values."""
MOST_RANGED = 13
"""Keys of a tile at most, of a ranged number of keys: more of them are more code, and no faster."""
LAST_KEYS = 4
"""Keys of a tile, of a ranged number of keys those that whole tiles leave."""


@dataclass(frozen=True)
class BlockPlan:
    """Blocks of `queries`, a number of whole vectors, of a problem on a target."""

    problem: AttentionProblem
    target: Target
    queries: int

    @property
    def dtype(self) -> DType:
        """The element type of scores and sums."""
        return sum_type(self.problem.dtype)

    @property
    def lanes(self) -> int:
        """Queries of a vector."""
        return lanes_of(self.problem, self.target)

    @property
    def blocks(self) -> int:
        """Blocks of a head."""
        return -(-self.problem.queries // self.queries)

    @property
    def part(self) -> int:
        """Keys that are seen at a time."""
        keys, most = self.problem.keys, self._most_of_part
        if largest(keys) <= most:
            return keys
        return larger_extent(-(-keys // larger_extent(-(-keys // most), 1)), 1)

    @property
    def largest_part(self) -> int:
        """The most keys that are seen at a time."""
        return min(largest(self.part), self._most_of_part)

    @property
    def _most_of_part(self) -> int:
        return max(MOST_KEYS, 2 * isqrt(largest(self.problem.keys)))

    @property
    def in_parts(self) -> bool:
        """Whether keys may be too many to be seen at once."""
        return self.largest_part < largest(self.problem.keys)

    @property
    def pitch(self) -> int:
        """Columns of the values, up to a whole vector."""
        return -(-self.problem.value_width // self.lanes) * self.lanes

    @property
    def key_tile(self) -> RegisterTile:
        """Keys by queries whose scores are computed at a time."""
        vectors = self.queries // self.lanes
        most = most_rows(self.target, vectors, self.dtype)
        most = most - 1 if most > LOW_TILE else most
        if is_ranged(self.problem.keys):
            return RegisterTile(min(most, MOST_RANGED), vectors, self.lanes)
        return RegisterTile(height_of(self.part, most), vectors, self.lanes)

    @property
    def value_tile(self) -> RegisterTile:
        """Queries by columns of values whose sums are computed at a time."""
        most = most_rows(self.target, VECTORS, self.dtype)
        rows = max(rows for rows in range(1, most + 1) if self.queries % rows == 0)
        return RegisterTile(rows, VECTORS, self.lanes)

    @property
    def scratch(self) -> dict[str, Storage]:
        """Memory for one block."""
        problem = self.problem
        beyond = LAST_KEYS if is_ranged(problem.keys) else 0
        columns = {
            "packed": problem.width,
            "scores": self.largest_part + beyond,
            "mixed": self.pitch,
            **dict.fromkeys(("peaks", "sums", "factors"), 1),
            **({"mask": problem.keys} if problem.has_own_masks else {}),
        }
        return {name: Storage(self.dtype, n * self.queries) for name, n in columns.items()}


def height_of(keys: int, most: int) -> int:
    """Rows of a tile that cover the keys with little beyond them."""
    heights = range(min(keys, max(1, most // 2)), min(keys, most) + 1)
    return min(heights, key=lambda rows: -(-keys // rows) * (rows + 1))
