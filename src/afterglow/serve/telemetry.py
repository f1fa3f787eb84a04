"""OpenTelemetry traces of requests, if the packages of OpenTelemetry are installed."""

from __future__ import annotations

import time
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from afterglow.serve.batching import Job


class Telemetry:
    """Gives spans of requests to the tracer that the process has configured."""

    def __init__(self) -> None:
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
        return not isinstance(self._trace.get_tracer_provider(), self._trace.ProxyTracerProvider)

    def record(self, traceparent: str, model: str, job: Job, ended: float) -> None:
        """Record a request that was answered, with the spans queue, compute and respond."""
        if not self.is_on:
            return
        tracer = self._trace.get_tracer("afterglow.serve")
        offset = time.time_ns() - round(perf_counter() * 1e9)
        context = self._propagator.extract({"traceparent": traceparent}) if traceparent else None
        root = tracer.start_span(
            f"infer {model}",
            context=context,
            start_time=offset + round(job.came * 1e9),
            attributes={"model": model, "rows": job.rows},
        )
        inner = self._trace.set_span_in_context(root)
        parts = (("queue", job.came, job.began), ("compute", job.began, job.ended))
        for name, start, stop in (*parts, ("respond", job.ended, ended)):
            span = tracer.start_span(name, context=inner, start_time=offset + round(start * 1e9))
            span.end(offset + round(stop * 1e9))
        root.end(offset + round(ended * 1e9))
