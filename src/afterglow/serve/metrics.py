"""Metrics in the text format of Prometheus."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from time import time

from afterglow.serve.served import ServedModel
from afterglow.serve.statistics import BOUNDS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counts of the server itself; those of models are read from their statistics."""

    def __init__(self) -> None:
        self.answers: Counter[tuple[str, str]] = Counter()
        """Answers by protocol and status."""
        self.began = time()

    def text(self, models: Iterable[ServedModel]) -> str:
        """All metrics."""
        served = [*models]
        parts = [self._server(), *(part for family in _FAMILIES for part in family(served))]
        return "\n".join(line for part in parts for line in part) + "\n"

    def _server(self) -> Iterator[str]:
        yield from _head("afterglow_answers_total", "counter", "Answers by protocol and status.")
        for (protocol, status), count in sorted(self.answers.items()):
            yield f'afterglow_answers_total{{protocol="{protocol}",status="{status}"}} {count}'
        yield from _head("afterglow_resident_bytes", "gauge", "Memory of the process.")
        yield f"afterglow_resident_bytes {resident_bytes()}"
        yield from _head("afterglow_uptime_seconds", "gauge", "Time since the start.")
        yield f"afterglow_uptime_seconds {time() - self.began:.3f}"


def resident_bytes() -> int:
    """Bytes of memory that the process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _head(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _label(model: ServedModel, **more: object) -> str:
    pairs = {"model": model.name, "version": model.version, **more}
    return "{" + ",".join(f'{name}="{value}"' for name, value in pairs.items()) + "}"


def _requests(models: list[ServedModel]) -> Iterator[Iterator[str]]:
    name = "afterglow_requests_total"
    yield _head(name, "counter", "Requests that were answered.")
    yield (f"{name}{_label(m)} {m.statistics.success.count}" for m in models)
    failed = "afterglow_failures_total"
    yield _head(failed, "counter", "Requests that got an error, by its kind.")
    for model in models:
        kinds = model.statistics.failures.items()
        yield iter([f"{failed}{_label(model, kind=kind)} {count}" for kind, count in kinds])


def _runs(models: list[ServedModel]) -> Iterator[Iterator[str]]:
    name = "afterglow_run_rows_total"
    yield _head(name, "counter", "Runs of a model by their number of rows.")
    for model in models:
        sizes = sorted(model.statistics.batches.items())
        yield iter([f"{name}{_label(model, rows=rows)} {each.count}" for rows, each in sizes])
    for part in ("queue", "compute"):
        seconds = f"afterglow_{part}_seconds_total"
        yield _head(seconds, "counter", f"Time of requests or runs in {part}.")
        times = [(m, getattr(m.statistics, part).seconds) for m in models]
        yield iter([f"{seconds}{_label(model)} {time:.6f}" for model, time in times])


def _gauges(models: list[ServedModel]) -> Iterator[Iterator[str]]:
    yield _head("afterglow_waiting", "gauge", "Requests that wait.")
    yield (f"afterglow_waiting{_label(m)} {m.batcher.waiting}" for m in models)
    yield _head("afterglow_running", "gauge", "Runs that are not done.")
    yield (f"afterglow_running{_label(m)} {m.batcher.running}" for m in models)
    yield _head("afterglow_model_bytes", "gauge", "Memory of a model.")
    yield (f"afterglow_model_bytes{_label(m)} {m.nbytes}" for m in models)


def _latencies(models: list[ServedModel]) -> Iterator[Iterator[str]]:
    name = "afterglow_latency_seconds"
    yield _head(name, "histogram", "Time from the arrival of a request to its answer.")
    for model in models:
        histogram = model.statistics.latency
        counts = histogram.cumulative()
        bounds = (*map(str, BOUNDS), "+Inf")
        pairs = zip(bounds, counts, strict=True)
        yield iter([f"{name}_bucket{_label(model, le=bound)} {count}" for bound, count in pairs])
        yield iter([f"{name}_sum{_label(model)} {histogram.total:.6f}"])
        yield iter([f"{name}_count{_label(model)} {counts[-1]}"])


_FAMILIES = (_requests, _runs, _gauges, _latencies)
