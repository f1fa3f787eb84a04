"""Pipelines: passes in an order that is checked when the pipeline is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np

from afterglow.graph import Function, Module
from afterglow.instr import Program
from afterglow.passes.base import AnyPass, Pass, ProgramPass, Property
from afterglow.passes.instruments import Instrument, StopPipeline

PassT = TypeVar("PassT", bound=AnyPass)


class _Passes(Generic[PassT]):
    """A named list of passes. An order that breaks a `requires` is refused at once."""

    def __init__(self, name: str, passes: Sequence[PassT]) -> None:
        self.name = name
        self.passes = tuple(passes)
        self._check_order()

    def _check_order(self) -> None:
        have: set[Property] = set()
        for step in self.passes:
            missing = step.requires - have
            if missing:
                wanted = ", ".join(sorted(item.value for item in missing))
                raise ValueError(f"pipeline '{self.name}': pass '{step.name}' needs {wanted} first")
            have |= step.provides

    def _run(
        self,
        unit: Module | Program,
        run: Callable[[PassT], bool],
        instruments: Sequence[Instrument],
    ) -> None:
        try:
            for step in self.passes:
                for instrument in instruments:
                    instrument.before(step, unit)
                started = perf_counter()
                changed = run(step)
                seconds = perf_counter() - started
                for instrument in instruments:
                    instrument.after(step, unit, changed, seconds)
        except StopPipeline:
            return


class Pipeline(_Passes[Pass]):
    """Passes over every function of a module."""

    def run(self, module: Module, instruments: Sequence[Instrument] = ()) -> None:
        """Run every pass over every function of the module."""

        def run(step: Pass) -> bool:
            changed, done = False, set[Function]()
            with np.errstate(all="ignore"):  # constants may hold infinity, and overflow
                while waiting := [f for f in module.functions.values() if f not in done]:
                    for function in waiting:  # a pass may drop some, and add bodies
                        changed |= step.run(function)
                    done.update(waiting)
            return changed

        self._run(module, run, instruments)


class ProgramPipeline(_Passes[ProgramPass]):
    """Passes over a program."""

    def run(self, program: Program, instruments: Sequence[Instrument] = ()) -> None:
        """Run every pass over the program."""
        self._run(program, lambda step: step.run(program), instruments)
