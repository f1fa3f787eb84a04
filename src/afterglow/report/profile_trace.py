"""A profiled run as a trace: a row for each thread, a span for each instruction."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from afterglow.report.profile import Profile
from afterglow.runtime.trace import Row, Trace
from afterglow.support.errors import UsageError

SHORTEST_WAIT = 1e-6
"""Seconds; shorter waits are not shown."""


def profile_trace(profile: Profile, device: str) -> Trace:
    """What each thread did in the profiled run; spans are named by the model's nodes."""
    if not profile.spans:
        raise UsageError(
            "the profile of this model has no record of its threads",
            help="--trace needs the cpu backend and a model that is not yet compiled",
        )
    trace = Trace()
    shift = perf_counter() - min(span.begin for span in profile.spans)
    steps = {step.place: step for step in profile.steps}
    for span in profile.spans:
        step = steps[span.place]
        name = ", ".join(step.origins) or step.kernel
        row = Row(device, f"thread {span.thread}")
        begin, worked, end = (time + shift for time in (span.begin, span.share_end, span.end))
        about: dict[str, Any] = {"kernel": step.kernel, "plan": step.plan}
        about |= {"nodes": step.origins, "operands": step.operands, "results": step.results}
        trace.add(row, name, begin, worked, kind="host" if step.on_host else "kernel", **about)
        if end - worked > SHORTEST_WAIT:
            trace.add(row, "wait for other threads", worked, end, kind="wait")
    return trace
