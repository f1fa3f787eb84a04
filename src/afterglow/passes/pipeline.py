"""Pipelines: passes in an order that is checked when the pipeline is made."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from afterglow.graph import Module
from afterglow.passes.base import Pass, Property
from afterglow.passes.instruments import Instrument, StopPipeline


class UntilSettled(Pass):
    """Runs passes in turn until none changes anything, `limit` times at most."""

    def __init__(self, *passes: Pass, limit: int) -> None:
        self.passes = passes
        self.limit = limit
        self.name = "until-settled"  # type: ignore[misc]  # a class variable of other passes


class Pipeline:
    """A named list of passes. An order that breaks a `requires` is refused at once."""

    def __init__(self, name: str, passes: Sequence[Pass]) -> None:
        self.name = name
        self.passes = tuple(passes)
        self._check_order()

    def _check_order(self) -> None:
        have: set[Property] = set()
        for step in self.steps():
            missing = step.requires - have
            if missing:
                wanted = ", ".join(sorted(item.value for item in missing))
                raise ValueError(f"pipeline '{self.name}': pass '{step.name}' needs {wanted} first")
            have |= step.provides

    def steps(self) -> list[Pass]:
        """Every pass, those inside `UntilSettled` once each."""
        return [
            inner
            for step in self.passes
            for inner in (step.passes if isinstance(step, UntilSettled) else (step,))
        ]

    def run(self, module: Module, instruments: Sequence[Instrument] = ()) -> None:
        """Run every pass over every function of the module."""
        runner = _Runner(module, instruments)
        try:
            for step in self.passes:
                if isinstance(step, UntilSettled):
                    runner.until_settled(step)
                else:
                    runner.once(step)
        except StopPipeline:
            return


class _Runner:
    """One run of a pipeline over one module."""

    def __init__(self, module: Module, instruments: Sequence[Instrument]) -> None:
        self.module = module
        self.instruments = instruments

    def until_settled(self, group: UntilSettled) -> None:
        for _ in range(group.limit):
            changes = [self.once(step) for step in group.passes]
            if not any(changes):
                return

    def once(self, step: Pass) -> bool:
        for instrument in self.instruments:
            instrument.before(step, self.module)
        started = perf_counter()
        functions = list(self.module.functions.values())  # a pass may drop some
        with np.errstate(all="ignore"):  # constants may hold infinity, and overflow
            changes = [step.run(function) for function in functions]
        seconds = perf_counter() - started
        changed = any(changes)
        for instrument in self.instruments:
            instrument.after(step, self.module, changed, seconds)
        return changed
