"""The report on a model that is compiled already: its sizes and times, and no graph."""

from __future__ import annotations

from collections.abc import Mapping

from afterglow.report.page.collect import ModelReport, measure_runs
from afterglow.report.page.head import saved_facts, time_facts
from afterglow.report.page.times import saved_shares, times_data
from afterglow.report.saved_profile import profile_saved
from afterglow.runtime.device import TimesSteps
from afterglow.runtime.model import CompiledModel
from afterglow.runtime.version import Version
from afterglow.types import Array


def collect_saved(
    title: str, model: CompiledModel, feed: Mapping[str, Array] | None, repeat: int, threads: int
) -> ModelReport:
    """What a compiled model tells, timed on a feed if there is one."""
    report = ModelReport(title)
    report.inputs = [(info.name, str(info)) for info in model.inputs]
    report.outputs = [(info.name, str(info)) for info in model.outputs]
    report.missing.append(
        "The file holds code and no graph: stages, memory map, kernel plans and roofline are in "
        "the report on the original model."
    )
    if feed is None:
        report.missing.append("Nothing was timed: the report was made with --no-time.")
        return report
    version = model.version_for(feed)
    if not isinstance(version, Version):
        report.missing.append("The model has data-dependent shapes: it has no single program.")
        return report
    report.facts += [*saved_facts(model), ("threads", str(threads))]
    compiled = version.compiled
    inputs = [feed[name] for name in compiled.input_names]
    run = measure_runs(lambda: compiled.run(inputs), threads)
    report.facts += time_facts(run, None)
    if isinstance(compiled.executable, TimesSteps):
        steps = profile_saved(compiled, inputs, repeat).steps
        report.sections["times"] = times_data(steps, saved_shares(steps), run)
    return report
