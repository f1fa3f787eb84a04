"""`afterglow compile` for models with data-dependent shapes: compiles the first subgraph."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from afterglow.cli.progress import StageClock
from afterglow.cli.report import memory_table, stage_table
from afterglow.cli.request import Request
from afterglow.cli.session import Session
from afterglow.driver.compile import compile_with
from afterglow.frontends.base import NeedsValuesError
from afterglow.runtime import CompiledModel
from afterglow.runtime.segmented import SegmentedVersion
from afterglow.support.output_path import unwritable


def compile_partitioned(
    session: Session, request: Request, error: NeedsValuesError, output: Path | None
) -> int:
    """Compile the subgraph before the first data-dependent shape; save it with the remaining graph.

    `error` reported the data-dependent shape; it is raised again if the first subgraph needs
    values, too.
    """
    with StageClock(session.err) as clock:
        options = replace(request.options, progress=clock)
        model = compile_with(request.path, options, request.dim_options)
        firsts = [v for v in model.versions() if isinstance(v, SegmentedVersion)]
        if not firsts or error.boundary is None:
            raise error
        if output is not None:
            clock("write")
            _save(model, output)
    stops = list(map(str, error.boundary.nodes))
    data: dict[str, Any] = {
        "model": request.path,
        "backend": options.where,
        "first_parts": [_memory(version) for version in firsts],
        "on_host": stops,
        "seconds": clock.seconds,
        "output": None if output is None else str(output),
    }

    def show() -> None:
        session.show(stage_table(clock.seconds))
        first = firsts[0].first
        if first is not None:
            plan = first.compiled.plan
            session.show(memory_table(first.compiled.memory, plan.total_bytes))
        wrote = "" if output is None else f", written to {output}"
        session.say(f"compiled up to {', '.join(stops)}: later shapes depend on data{wrote}")

    session.answer(data, show)
    return 0


def _memory(version: SegmentedVersion) -> dict[str, int] | None:
    """The memory report of the first subgraph, if it computes anything."""
    return None if version.first is None else asdict(version.first.compiled.memory)


def _save(model: CompiledModel, path: Path) -> None:
    try:
        model.save(path, force=True)
    except OSError as error:
        raise unwritable(path, error) from None
