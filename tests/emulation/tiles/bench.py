"""A bench for kernels on a machine with tiles, which are emulated."""

from __future__ import annotations

from dataclasses import replace

import pytest

from afterglow.backends.cpu import Target
from afterglow.backends.cpu.codegen.write import plans_for
from afterglow.backends.policy import DEFAULT
from afterglow.types import Array
from tests.backends.cpu.kernels.harness import Bench
from tests.emulation.tiles.instructions import EmulatedTiles, with_tiles

TILES = "tiles"
needs_quads = pytest.mark.skipif(
    not Target.host().dot_mixed_signs,
    reason="what is around tiles multiplies four bytes at a time, which this processor cannot",
)


class TileBench(Bench):
    """A bench whose kernels use tiles, whatever the estimates say; runs are checked and counted."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(with_tiles(target))
        self.tiles = EmulatedTiles()
        self.compile = self.tiles.compile
        self.runs_on = self.target.without_tiles()

    @property
    def has_tiles(self) -> bool:
        """Whether there is a plan with tiles."""
        return any(plan.algorithm == TILES for plan in plans_for(self.job(), self.target, DEFAULT))

    def run(self, pieces: int = 1) -> list[Array]:
        """As of any bench, and nothing that a processor would refuse."""
        job = self.job()
        plans = plans_for(job, self.target, DEFAULT)
        (plan,) = (plan for plan in plans if plan.algorithm == TILES)
        self.policy = replace(self.policy, variants={job.key: plan.variant})
        results = super().run(pieces)
        self.tiles.check()
        assert self.tiles.count("ldtilecfg") > 0
        return results
