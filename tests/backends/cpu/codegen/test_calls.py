"""Steps of programs for ranges: how many chunks they are cut into."""

from __future__ import annotations

import numpy as np
import pytest

from afterglow.driver.api import compile
from afterglow.graph import Builder, Module, Value
from afterglow.ops.activation import Gelu
from afterglow.ops.elementwise import Add
from afterglow.ops.movement import Transpose
from afterglow.runtime.native.timed_team import TimedTeam
from afterglow.testing.arrays import random_inputs
from afterglow.testing.ranged_checks import check_ranged, module_of
from afterglow.types import TensorType
from afterglow.types.dtype import f32
from afterglow.types.extent import Dim, Extents, ranged

S = ranged(Dim("s", 1, 512))


class NotedTeam(TimedTeam):
    """A team that notes how steps are cut."""

    def __init__(self, scratch: int) -> None:
        self.cuts: list[tuple[int, int]] = []
        super().__init__(scratch)

    def _run_step(self, team: int, step: int, bases: int, units: int, chunks: int) -> None:
        self.cuts.append((units, chunks))
        super()._run_step(team, step, bases, units, chunks)


def module() -> Module:
    def steps(b: Builder, x: Value, y: Value) -> list[Value]:
        return [b.emit(Gelu(), b.emit(Add(), x, y)), b.emit(Transpose((1, 0)), x)]

    return module_of([TensorType(f32, (S, 768)), TensorType(f32, (768,))], steps)


def cuts(made: Module, extents: Extents, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    teams: list[NotedTeam] = []

    def team(scratch: int) -> NotedTeam:
        teams.append(NotedTeam(scratch))
        return teams[-1]

    monkeypatch.setattr("afterglow.runtime.native.executable.TimedTeam", team)
    executable = compile(made, cache=False).compiled.executable
    executable.time_steps(random_inputs(module().bind(extents).main), {})
    return teams[0].cuts


@pytest.mark.parametrize("s", [16, 40, 512])
def test_a_step_has_as_many_chunks_as_in_the_exact_program(
    s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranged_cuts = cuts(module(), {"s": s}, monkeypatch)
    exact_cuts = cuts(module().bind({"s": s}), {"s": s}, monkeypatch)
    assert [chunks for _, chunks in ranged_cuts] == [chunks for _, chunks in exact_cuts]


def test_several_threads_give_the_same_results_at_all_extents() -> None:
    check_ranged(module(), [{"s": s} for s in (1, 7, 129, 512)], threads=2)


def test_threads_are_woken_only_if_the_extents_are_worth_it() -> None:
    (part,) = compile(module(), cache=False).compiled.executable.native.parts
    assert part.is_shared
    assert [part.is_shared_at({"s": s}) for s in (1, 8, 64, 512)] == [False, False, True, True]
    assert np.isclose(part.work, part.work.bind({"s": 512}))
