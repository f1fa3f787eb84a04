"""Whole models on a machine with tiles, which are emulated."""

from __future__ import annotations

from typing import Any

from afterglow.backends.backend import Settings
from afterglow.backends.cpu import Target
from afterglow.backends.cpu.backend import Cpu
from afterglow.backends.cpu.codegen.planner import Planner
from afterglow.driver.compile import import_model
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.runtime import CompiledFunction
from tests.emulation.tiles.instructions import EmulatedTiles, with_tiles


class TiledCpu(Cpu):
    """The CPU backend for a machine as if it had tiles; the code runs on this one."""

    def __init__(self, target: Target | None = None) -> None:
        super().__init__(Settings())
        self.tiles = EmulatedTiles()
        self.target = with_tiles(target)
        self.compiled = self.tiles.compile
        self._planner = Planner(self.target, self.policy)


def compiled_with_tiles(
    source: Any, target: Target | None = None, **options: Any
) -> tuple[CompiledFunction, EmulatedTiles]:
    """A model compiled for such a machine, by default for one thread, and what counts there."""
    backend = TiledCpu(target)
    stages = Stages(Options(cache=None, **{"threads": 1, **options}))
    vars(stages)["backend"] = backend
    return stages.finish(import_model(source)), backend.tiles
