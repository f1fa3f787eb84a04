"""Instruments: what watches a pipeline run without taking part in it."""

from __future__ import annotations

from collections.abc import Callable

from afterglow.graph import Module, print_module, verify_module
from afterglow.instr import Program, print_program, verify_program
from afterglow.passes.base import AnyPass
from afterglow.support.errors import VerifyError


class StopPipeline(Exception):  # noqa: N818  a signal, not an error
    """Raised by an instrument to leave the rest of a pipeline out."""


class Instrument:
    """Called around each pass; the default does nothing."""

    def before(self, step: AnyPass, unit: Module | Program) -> None:
        """Before a pass runs."""

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """After a pass ran."""


class VerifyEach(Instrument):
    """Verifies the module or program after each pass that changed it, and names the pass."""

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """See the class."""
        if not changed:
            return
        try:
            _verify(unit)
        except VerifyError as error:
            raise VerifyError(
                f"after pass '{step.name}': {error.what}",
                where=error.where,
                excerpt=error.excerpt,
            ) from None


class Dump(Instrument):
    """Hands the text of what passes run on to `sink(title, text)`, before or after some or all.

    `names` None means all passes; `changed_only` leaves out those that did nothing.
    """

    def __init__(
        self,
        sink: Callable[[str, str], None],
        *,
        names: frozenset[str] | None = None,
        before: bool = False,
        changed_only: bool = False,
    ) -> None:
        self.sink = sink
        self.names = names
        self.want_before = before
        self.changed_only = changed_only

    def before(self, step: AnyPass, unit: Module | Program) -> None:
        """See the class."""
        if self.want_before and self._wanted(step):
            self.sink(f"before {step.name}", _text(unit))

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """See the class."""
        if self._wanted(step) and (changed or not self.changed_only):
            self.sink(f"after {step.name}", _text(unit))

    def _wanted(self, step: AnyPass) -> bool:
        return self.names is None or step.name in self.names


class Timing(Instrument):
    """Adds up the seconds and the runs of each pass."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.runs: dict[str, int] = {}

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """See the class."""
        self.seconds[step.name] = self.seconds.get(step.name, 0.0) + seconds
        self.runs[step.name] = self.runs.get(step.name, 0) + 1


class StopAfter(Instrument):
    """Leaves out everything after the first `count` passes: for bisecting a wrong result."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.done: list[str] = []

    def before(self, step: AnyPass, unit: Module | Program) -> None:
        """See the class."""
        if len(self.done) >= self.count:
            raise StopPipeline

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """See the class."""
        self.done.append(step.name)


def _verify(unit: Module | Program) -> None:
    if isinstance(unit, Program):
        verify_program(unit)
    else:
        verify_module(unit)


def _text(unit: Module | Program) -> str:
    return print_program(unit) if isinstance(unit, Program) else print_module(unit)
