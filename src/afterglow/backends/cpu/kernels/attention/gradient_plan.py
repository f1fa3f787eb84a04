"""How the gradient of attention is cut: queries into blocks, keys into tiles."""

from __future__ import annotations

from afterglow.backends.cpu.kernels.attention.block_plan import (
    LOW_TILE,
    VECTORS,
    BlockPlan,
    height_of,
)
from afterglow.backends.cpu.kernels.attention.problem import Heads
from afterglow.backends.cpu.micro.cost import work_of
from afterglow.backends.cpu.micro.kernel import Storage
from afterglow.backends.cpu.micro.tile import RegisterTile, most_rows
from afterglow.support.lazy_dataclass import dataclass

MOST_KEYS = 128
"""Keys of a block at most, unless a tile has more."""


@dataclass(frozen=True)
class GradientPlan(BlockPlan):
    """Blocks of queries that see all keys at once; `grad` is the gradient of the result.

    If it `is_cut`, the sums for keys and values are made for a block of keys at a time.
    """

    grad: Heads
    is_cut: bool = False

    @property
    def shared_heads(self) -> int:
        """Heads of keys and values."""
        return self.problem.heads // self.problem.k.sharing

    @property
    def summed_keys(self) -> int:
        """Keys whose sums are made at a time: of a block, whole tiles."""
        rows = self.key_tile.rows
        return max(1, MOST_KEYS // rows) * rows if self.is_cut else self.problem.keys

    @property
    def key_blocks(self) -> int:
        """Blocks of keys of a head."""
        return -(-self.problem.keys // self.summed_keys)

    @property
    def part(self) -> int:
        """All keys: what flows back to one score depends on all scores of the query."""
        return self.problem.keys

    @property
    def largest_part(self) -> int:
        """All keys."""
        return self.problem.keys

    @property
    def key_tile(self) -> RegisterTile:
        """Keys by queries, and by columns: as many keys for both."""
        most = most_rows(self.target, VECTORS, self.dtype)
        most = most - 1 if most > LOW_TILE else most
        return RegisterTile(
            height_of(max(self.problem.keys, 1), most), self.queries // self.lanes, self.lanes
        )

    @property
    def column_tile(self) -> RegisterTile:
        """Keys by columns whose sums are computed at a time."""
        return RegisterTile(self.key_tile.rows, VECTORS, self.lanes)

    @property
    def widths(self) -> dict[str, int]:
        """The width of each result."""
        return {
            "dq": self.problem.width,
            "dk": self.problem.width,
            "dv": self.problem.value_width,
        }

    def pitch_of(self, name: str) -> int:
        """Columns of a result, up to a whole vector."""
        return -(-self.widths[name] // self.lanes) * self.lanes

    @property
    def work(self) -> float:
        """Multiplications and additions."""
        problem = self.problem
        scores = problem.batch * problem.heads * problem.queries * problem.keys
        return work_of(scores, 2 * (3 * problem.width + 2 * problem.value_width + 8))

    @property
    def scratch(self) -> dict[str, Storage]:
        """Memory for one block of queries, and for the sums of all blocks of a head."""
        problem = self.problem
        columns = {
            "packed": problem.width,
            "packed_grad": problem.value_width,
            **dict.fromkeys(("scores", "behind"), problem.keys),
            "dq": self.pitch_of("dq"),
            "peaks": 1,
            **({"mask": problem.keys} if problem.has_own_masks else {}),
        }
        block = {name: Storage(self.dtype, n * self.queries) for name, n in columns.items()}
        sums = {
            name: Storage(self.dtype, self.summed_keys * self.pitch_of(name))
            for name in ("dk", "dv")
        }
        return {**block, **sums}
