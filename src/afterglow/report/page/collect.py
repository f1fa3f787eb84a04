"""Collects what the report on a model shows, stage by stage, as JSON can hold it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from time import perf_counter
from typing import Any

from afterglow.backends.capabilities import Profiling, Tuning
from afterglow.driver.device_rates import rates_of
from afterglow.driver.devices import find_device
from afterglow.driver.options import Options
from afterglow.driver.partitioning import Partitioned
from afterglow.driver.stages import Stages
from afterglow.driver.state import import_with_state
from afterglow.frontends.base import NeedsValuesError, Source
from afterglow.graph import Module
from afterglow.instr import Instr, Program, interface_of
from afterglow.memory.timeline import Timeline
from afterglow.partition.estimate import estimate_seconds, estimate_steps, plan_of
from afterglow.report.page.head import Fact, memory_facts, option_facts, time_facts
from afterglow.report.page.instructions import choices_data, instruction_facts
from afterglow.report.page.memory import memory_data
from afterglow.report.page.partition import partition_data
from afterglow.report.page.quantization import quantization_data
from afterglow.report.page.stages import StageGraph, stage_of_module, stage_of_program
from afterglow.report.page.times import MeasuredRun, roofline_data, shares_of, times_data
from afterglow.report.profile import StepTime, profile
from afterglow.runtime.buffers import HostBuffer
from afterglow.runtime.device import LoadOptions
from afterglow.runtime.growth import filled_states
from afterglow.runtime.logical_device import LogicalDevice
from afterglow.runtime.rates import Rates
from afterglow.support.errors import UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.types import Array

FORMAT = "afterglow report"
VERSION = 1
LEAST_RUNS, MOST_RUNS = 3, 200
RUN_SECONDS = 1.0
"""How long whole runs are timed, about."""
BEYOND_PEAK = 1.2
"""How much faster than the measured peak a product may be before the peak is measured again."""


@dataclass
class ModelReport:
    """What a page shows of a model: its head, the stages, and a section for each other view."""

    title: str
    facts: list[Fact] = field(default_factory=list)
    inputs: list[tuple[str, str]] = field(default_factory=list)
    outputs: list[tuple[str, str]] = field(default_factory=list)
    stages: list[StageGraph] = field(default_factory=list)
    sections: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    """Sentences that say what is not shown, and why."""

    def data(self) -> dict[str, Any]:
        """All of it; nodes name their origins by number."""
        origins: dict[str, int] = {}
        stages = [stage.data(origins) for stage in self.stages]
        return {
            "format": FORMAT,
            "version": VERSION,
            "model": self.title,
            "facts": [list(fact) for fact in self.facts],
            "inputs": [list(each) for each in self.inputs],
            "outputs": [list(each) for each in self.outputs],
            "missing": self.missing,
            "origins": [*origins],
            "stages": stages,
            **self.sections,
        }


def collect_report(
    title: str, source: Source, options: Options, feed: Mapping[str, Array] | None, repeat: int
) -> ModelReport:
    """Compile a model, stage by stage, and note what each gives; with a feed, time it.

    What the model or the backend cannot show is left out, and a sentence says so.
    """
    return _Collector(ModelReport(title), options, feed, repeat).run(source)


@dataclass
class _Timing:
    """Times of a program: of whole runs, of steps, and those that its device's rates suggest."""

    steps: Sequence[StepTime] = ()
    run: MeasuredRun | None = None
    rates: Rates | None = None
    expected: list[float] | None = None
    expected_run: float | None = None


@dataclass
class _Collector:
    report: ModelReport
    options: Options
    feed: Mapping[str, Array] | None
    repeat: int

    @property
    def threads(self) -> int:
        return self.options.threads or 1

    def run(self, source: Source) -> ModelReport:
        """Everything, in the order of the stages."""
        self._note_source(source)
        self.report.facts += option_facts(self.options)
        self._tell("import")
        try:
            module, _ = import_with_state(source, self.options)
        except NeedsValuesError as error:
            self._note_needed_values(error)
            return self.report
        self._note_ports(module)
        self._add("import", "Import", module)
        if self.options.devices:
            self._partitioned(module)
        else:
            self._compiled(module)
        return self.report

    def _note_source(self, source: Source) -> None:
        """The model as its front end reads it, if it is read from a file."""
        try:
            self._add("model", "Model", source.graph)
        except UsageError:  # a module, which is imported already
            return

    def _note_needed_values(self, error: NeedsValuesError) -> None:
        stops = () if error.boundary is None else error.boundary.nodes
        where = f": the host runs {', '.join(map(str, stops))}" if stops else ""
        self.report.missing.append(
            f"{error.what}{where}. Such a model is compiled as it runs, so that only the model "
            "itself is shown."
        )

    def _note_ports(self, module: Module) -> None:
        self.report.inputs = [(x.name, str(x.type)) for x in module.main.inputs]
        self.report.outputs = [(out.name, str(out.value.type)) for out in module.main.outputs]

    def _add(self, name: str, title: str, module: Module) -> None:
        self.report.stages.append(stage_of_module(name, title, module))

    def _partitioned(self, module: Module) -> None:
        """Which device computes what, or how many items of a batch."""
        partitioned = Partitioned(self.options)
        if partitioned.config.split_batch:
            shares = partitioned.shares(module)
            items = (f"{share.device} {share.items} items" for share in shares)
            self.report.facts.append(("batch", ", ".join(items)))
        else:
            self.report.sections["partition"] = partition_data(partitioned.plan(module))
            self._add("graph", "Optimised", module)
        self.report.missing.append(
            "Each device compiles its own part of the model: instructions, memory and times are "
            "those of a report with one backend."
        )

    def _compiled(self, module: Module) -> None:
        stages = Stages(self.options)
        stages.optimise(module)
        self._add("graph", "Optimised", module)
        quantized = quantization_data(module.main, self.options.profile)
        if quantized is not None:
            self.report.sections["quantization"] = quantized
        stages.lower(module)
        self._add("lowered", "Lowered", module)
        program, plan = stages.plan(module)
        timeline = Timeline(program)
        self.report.facts += memory_facts(program, plan)
        choices = self._choices(stages, program)
        timing = self._time(stages, program)
        self.report.facts += time_facts(timing.run, timing.expected_run)
        times = {step.place: step for step in timing.steps}
        facts = instruction_facts(program, timeline, choices, times, timing.expected)
        self.report.stages.append(stage_of_program("Instructions", program, facts))
        self.report.sections["memory"] = memory_data(program, plan, timeline)
        self.report.sections["choices"] = choices_data(choices)
        if timing.steps:
            shares = shares_of(program, timing.steps)
            self.report.sections["times"] = times_data(timing.steps, shares, timing.run)
        if timing.rates is not None:
            self.report.sections["roofline"] = roofline_data(timing.rates, self.threads)

    def _choices(self, stages: Stages, program: Program) -> Sequence[Any]:
        if isinstance(stages.backend, Tuning):
            return stages.backend.choices(program)
        self.report.missing.append(
            f"Backend {stages.backend.name!r} lists no alternatives to its kernels."
        )
        return []

    def _time(self, stages: Stages, program: Program) -> _Timing:
        """Times of the program on the feed; what cannot be timed is left out."""
        if self.feed is None:
            self.report.missing.append("Nothing was timed: the report was made with --no-time.")
            return _Timing()
        missing = stages.backend.target.missing_here()
        if missing:
            self.report.missing.append(
                f"Nothing was timed: the code for {self.options.target} does not run here, it "
                f"needs {', '.join(missing)}."
            )
            return _Timing()
        return self._timed(stages, program, self.feed)

    def _timed(self, stages: Stages, program: Program, feed: Mapping[str, Array]) -> _Timing:
        interface = interface_of(program)
        kept = {port.name: feed[port.name] for port in interface.states if port.name in feed}
        inputs = [array for name, array in feed.items() if name not in kept]
        self._tell("time")
        states = filled_states(interface, kept)
        timing = _Timing(run=_measured(stages, program, inputs, states, self.threads))
        if isinstance(stages.backend, Profiling):
            loading = LoadOptions(self.threads)
            timing.steps = profile(
                stages.backend, program, inputs, loading, self.repeat, kept
            ).steps
            self._tell("roofline")
            device = LogicalDevice(
                self.options.backend, self.options.backend, self.options.target, self.threads
            )
            timing.rates = _fitting_rates(device, self.options.cache, program, timing.steps)
            timing.expected = estimate_steps(program, timing.rates)
            timing.expected_run = estimate_seconds(program, timing.rates)
        else:
            self.report.missing.append(
                f"Backend {stages.backend.name!r} does not time single instructions: there are no "
                "times by kernel or node, and no roofline."
            )
        return timing

    def _tell(self, stage: str) -> None:
        if self.options.progress is not None:
            self.options.progress(stage)


def _fitting_rates(
    device: LogicalDevice, cache: Path | None, program: Program, steps: Sequence[StepTime]
) -> Rates:
    """The rates of a device; measured anew if the program shows that it is faster than they say.

    So it is if other processes kept the machine busy when they were measured.
    """
    rates = rates_of(device, cache)
    found = max((_speed(program.body[step.place], step) for step in steps), default=0.0)
    if rates.is_stated or found <= BEYOND_PEAK * rates.flops:
        return rates
    return rates_of(device, cache, measure=True)


def _speed(instruction: Instr, step: StepTime) -> float:
    """Multiplications and additions in f32 a second, as many as the algorithm needs."""
    plan = plan_of(instruction)
    if plan is None or not step.seconds or not "".join(step.operands[:1]).startswith("f32"):
        return 0.0
    return min(plan.cost, step.flops) / step.seconds


def _measured(
    stages: Stages,
    program: Program,
    inputs: Sequence[Array],
    states: Mapping[str, HostBuffer],
    threads: int,
) -> MeasuredRun:
    """The time of whole runs, each of which begins with the same state."""
    backend = stages.backend
    executable = find_device(backend.device).load(backend.compile(program), LoadOptions(threads))
    return measure_runs(lambda: executable.run(inputs, states), threads)


def measure_runs(run: Any, threads: int) -> MeasuredRun:
    """Call something again and again for about a second; the first call does not count."""
    run()
    times: list[float] = []
    started = perf_counter()
    while len(times) < LEAST_RUNS or (
        perf_counter() - started < RUN_SECONDS and len(times) < MOST_RUNS
    ):
        before = perf_counter()
        run()
        times.append(perf_counter() - before)
    return MeasuredRun(min(times), statistics.median(times), len(times), threads)
