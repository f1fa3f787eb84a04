"""The pass that makes a model compute something else, found by bisection.

The program after the first N passes runs by the definitions of its ops, and is judged as the
compiled model is. If even the last one agrees, what is left is the code: then each instruction is
compared with the definition of its ops as it runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from afterglow.backends.capabilities import Verifying
from afterglow.backends.interpreter import Machine
from afterglow.driver.options import Options
from afterglow.driver.stages import Stages
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import Source
from afterglow.graph import Module
from afterglow.instr import Program, interface_of
from afterglow.passes import AnyPass, Instrument, StopAfter
from afterglow.report.compare.sides import Feed, Tensors, tensors_of
from afterglow.runtime import CompiledFunction
from afterglow.runtime.device import Executable, LoadOptions
from afterglow.runtime.version import Version
from afterglow.support.errors import UnsupportedError, VerifyError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import MemoryPlan, OutputForm

Differs = Callable[[Tensors], bool]
"""Whether outputs differ from the reference."""


@dataclass(frozen=True)
class PassFinding:
    """What introduced a difference: a pass, or what comes before or behind all of them."""

    where: str
    """`import`, `pass` or `code`."""
    name: str = ""
    """The name of the pass."""
    number: int = 0
    """Its place among all passes, from 1 on: what `afterglow dump --stop-after` counts."""
    run: int = 0
    """Which run of this pass it is: some run several times."""
    total: int = 0
    """How many passes there are."""
    details: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """The text, for people."""
        return [self._what, *(f"  {line}" for line in self.details)]

    @property
    def _what(self) -> str:
        if self.where == "import":
            return (
                "the difference is there before any pass: look at how the node is imported, at "
                "the definition of its op, or at the reference"
            )
        if self.where == "code":
            return f"all {self.total} passes agree: the difference comes with the generated code"
        again = f", run {self.run} of it" if self.run > 1 else ""
        return f"introduced by pass '{self.name}', number {self.number} of {self.total}{again}"

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return asdict(self)


class _Record(Instrument):
    """Notes which passes ran, and which of them changed something."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.changed: list[int] = []

    def after(self, step: AnyPass, unit: Module | Program, changed: bool, seconds: float) -> None:
        """See the class."""
        self.names.append(step.name)
        if changed:
            self.changed.append(len(self.names))


@dataclass(frozen=True)
class Bisection:
    """A model that differs, its inputs, and what tells whether its outputs do."""

    source: Source
    options: Options
    """Those with which it is one program."""
    feed: Feed
    differs: Differs
    progress: Callable[[str], None] = lambda text: None

    def find(self) -> PassFinding:
        """The pass after which outputs differ, and before which they do not."""
        record = _Record()
        self.progress("all passes")
        self._reach(record)
        names, changed = record.names, record.changed
        differs = cache(self._differs_after)
        if differs(0):
            return PassFinding("import", total=len(names))
        if not changed or not differs(changed[-1]):
            return PassFinding("code", total=len(names), details=self._instruction())
        place = bisect_left(changed, True, key=differs)
        number = changed[place]
        name = names[number - 1]
        return PassFinding(
            "pass", name, number, names[:number].count(name), len(names), self._hint(number)
        )

    def _differs_after(self, count: int) -> bool:
        """Whether outputs differ after some passes."""
        self.progress(f"after {count} passes")
        unit, forms, names = self._reach(StopAfter(count))
        run = _run_module if isinstance(unit, Module) else _run_program
        return self.differs(run(unit, forms, names, self.feed))  # type: ignore[arg-type]  # above

    def _reach(
        self, instrument: Instrument
    ) -> tuple[Module | Program, tuple[OutputForm, ...], _Names]:
        """The model as far as an instrument lets passes run."""
        options = replace(self.options, instruments=(instrument,), progress=None)
        module, forms = import_with_state(self.source, options)
        names = _Names.of(module)
        stages = Stages(options)
        stages.optimise(module)
        if _stopped(instrument):
            return module, forms, names
        try:
            stages.lower(module)
        except UnsupportedError:
            if not _stopped(instrument):
                raise
        if _stopped(instrument):
            return module, forms, names
        return stages.instructions(module), forms, names

    def _hint(self, number: int) -> tuple[str, ...]:
        return (f"afterglow dump --stop-after {number - 1} and {number} show what it does",)

    def _instruction(self) -> tuple[str, ...]:
        """The first instruction whose code does not do what its ops mean."""
        self.progress("instruction by instruction")
        stages = Stages(replace(self.options, progress=None))
        if not isinstance(stages.backend, Verifying):
            return (f"backend {stages.backend.name!r} cannot run instruction by instruction",)
        module, forms = import_with_state(self.source, stages.options)
        names = _Names.of(module)
        program, _ = stages.plan(stages.lower(stages.optimise(module)))
        options = LoadOptions(stages.options.threads)
        try:
            executable = stages.backend.verifying(program, options)
            _run_executable(executable, program, forms, names, self.feed)
        except VerifyError as error:
            return (error.what, *error.excerpt)
        return (
            "each instruction by itself does what its ops mean, within 1e-4: what is left is "
            "rounding that adds up, or how instructions run together",
        )


@dataclass(frozen=True)
class _Names:
    """What the model calls the inputs and outputs of a module."""

    inputs: Sequence[str]
    outputs: Sequence[str]

    @staticmethod
    def of(module: Module) -> _Names:
        main = module.main
        return _Names([x.name for x in main.inputs], [x.name for x in main.outputs])


def _stopped(instrument: Instrument) -> bool:
    return isinstance(instrument, StopAfter) and len(instrument.done) >= instrument.count


def _run_module(
    module: Module, forms: tuple[OutputForm, ...], names: _Names, feed: Feed
) -> Tensors:
    """The outputs of a module by the definitions of its ops."""
    stages = Stages(Options(backend="interpreter", optimize=False))
    function = stages.finish_optimised(module, names.inputs, names.outputs)
    return _outputs(function, forms, feed)


def _run_program(
    program: Program, forms: tuple[OutputForm, ...], names: _Names, feed: Feed
) -> Tensors:
    """The same of a program, whose memory need not be planned."""
    return _run_executable(Machine(program), program, forms, names, feed)


def _run_executable(
    executable: Executable,
    program: Program,
    forms: tuple[OutputForm, ...],
    names: _Names,
    feed: Feed,
) -> Tensors:
    plan = program.memory_plan or MemoryPlan(0, 0, 0)
    interface = interface_of(program)
    function = CompiledFunction(interface, plan, executable, names.inputs, names.outputs)
    return _outputs(function, forms, feed)


def _outputs(function: CompiledFunction, forms: tuple[OutputForm, ...], feed: Feed) -> Tensors:
    version = Version(function, forms)
    pairs = zip((form.name for form in forms), version.run(feed), strict=True)
    return dict(tensor for name, output in pairs for tensor in tensors_of(name, output))
