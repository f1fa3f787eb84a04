"""OpenTelemetry traces of requests, if the packages of OpenTelemetry are installed."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from afterglow.runtime.trace import Span
from afterglow.serve.errors import RequestError
from afterglow.serve.job import Job

_SCOPE = "afterglow.serve"
"""What recorded the spans, as OpenTelemetry shows it."""

_SERVER_ERROR = 500
"""Status from which on an error is not the client's; OpenTelemetry shows only those as errors."""


class Telemetry:
    """Gives spans of requests to a provider of tracers: by default to that of the process."""

    def __init__(self, provider: Any = None) -> None:
        self._provider = provider
        self._trace: Any = None
        self._propagator: Any = None
        if find_spec("opentelemetry") is None:
            return
        # by name, because the packages are optional
        self._trace = import_module("opentelemetry.trace")
        propagation = import_module("opentelemetry.trace.propagation.tracecontext")
        self._propagator = propagation.TraceContextTextMapPropagator()

    @property
    def is_on(self) -> bool:
        """Whether traces are recorded: the process has said where to."""
        if self._trace is None:
            return False
        return not isinstance(self._found_provider(), self._trace.ProxyTracerProvider)

    def _found_provider(self) -> Any:
        return self._provider or self._trace.get_tracer_provider()

    def record(self, traceparent: str, model: str, job: Job, ended: float) -> None:
        """Record a request that was answered, with the spans queue, compute and respond.

        Kernels of its run, if they were wanted, are spans below compute.
        """
        if not self.is_on:
            return
        spans = _Spans(self._found_provider().get_tracer(_SCOPE))
        root = spans.begin(
            f"infer {model}", job.came, self._context(traceparent), model=model, rows=job.rows
        )
        inner = self._trace.set_span_in_context(root)
        spans.add("queue", job.came, job.began, inner)
        compute = spans.begin("compute", job.began, inner)
        kernels = self._trace.set_span_in_context(compute)
        for step in [] if job.trace is None else job.trace.spans:
            spans.add(step.name, step.begin, step.end, kernels, **_about(step))
        spans.end(compute, job.ended)
        spans.add("respond", job.ended, ended, inner)
        spans.end(root, ended)

    def record_failure(
        self, traceparent: str, model: str, began: float, ended: float, error: RequestError
    ) -> None:
        """Record a request that was answered with an error, as one span."""
        if not self.is_on:
            return
        spans = _Spans(self._found_provider().get_tracer(_SCOPE))
        root = spans.begin(f"infer {model}", began, self._context(traceparent), model=model)
        root.set_attribute("error.type", error.kind.name.lower())
        if error.kind.status >= _SERVER_ERROR:
            root.set_status(self._trace.Status(self._trace.StatusCode.ERROR, error.message))
        spans.end(root, ended)

    def _context(self, traceparent: str) -> Any:
        """The span that a request belongs to; None if it names none."""
        return self._propagator.extract({"traceparent": traceparent}) if traceparent else None


class _Spans:
    """Makes spans whose times are those of `time.perf_counter`."""

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self._offset = time.time_ns() - round(perf_counter() * 1e9)

    def begin(self, name: str, at: float, context: Any, **attributes: Any) -> Any:
        """A span that began at some time."""
        start = self._nanoseconds(at)
        return self._tracer.start_span(
            name, context=context, start_time=start, attributes=attributes
        )

    def end(self, span: Any, at: float) -> None:
        """End a span."""
        span.end(self._nanoseconds(at))

    def add(self, name: str, begin: float, end: float, context: Any, **attributes: Any) -> None:
        """A span that is over."""
        self.end(self.begin(name, begin, context, **attributes), end)

    def _nanoseconds(self, at: float) -> int:
        return self._offset + round(at * 1e9)


def _about(step: Span) -> dict[str, Any]:
    """The attributes of a kernel's span: its device, and the model's nodes that it computes."""
    return {"device": step.row.process, **step.details}
