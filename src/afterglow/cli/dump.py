"""`afterglow dump`: print the program at any stage, as text or as a graph drawing."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

import click

from afterglow.cli.destination import (
    ARCHIVE,
    ASSEMBLY,
    DOT,
    GRAPH,
    LLVM,
    OPENCL,
    PICTURE,
    PROGRAM,
    STANDARD_OUTPUT,
    TRITON,
    Destination,
    FileKind,
    file_for,
    takes_force,
    writing,
)
from afterglow.cli.each import refuse_lists
from afterglow.cli.progress import StageClock
from afterglow.cli.report import pass_table
from afterglow.cli.request import Request, takes_model
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.array_files import save_arrays
from afterglow.driver.compile import STAGES
from afterglow.driver.pipelines import lowering_pipeline, optimising_pipeline
from afterglow.driver.stages import Stages, kernels_of
from afterglow.graph import Module, print_dot, print_module
from afterglow.graph.printer import is_inline
from afterglow.instr import Program, print_program
from afterglow.lowering.recompute import Recompute
from afterglow.lowering.splitting import FitArena
from afterglow.passes import Dump, Instrument, StopAfter, Timing
from afterglow.support.errors import UnsupportedError, UsageError
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.plugins import BACKENDS, plugin_names
from afterglow.types import Array

_KERNELS = {"opencl": OPENCL, "triton": TRITON}
_KINDS = {"instructions": PROGRAM, "llvm": LLVM, "asm": ASSEMBLY, **_KERNELS}
"""The kind of file that is written for a stage; a graph for all others."""

_STAGE = click.STRING if plugin_names(BACKENDS) else click.Choice((*STAGES, *_KERNELS))
"""Those of all our own backends; backends of other packages may have further ones."""


@dataclass
class DumpFormat:
    """The output options of `dump`: format and destination."""

    dot: bool
    svg: bool
    origins: bool
    output: str | None
    payload: str | None
    force: bool

    def check(self, stage: str) -> None:
        """Raise if the options contradict each other or the stage."""
        if self.dot and self.svg:
            raise UsageError("--dot and --svg cannot be used together")
        is_graph = stage in ("import", "graph", "lowered")
        if not is_graph and (self.dot or self.svg):
            raise UsageError(
                f"stage {stage} is not a graph and cannot be drawn",
                help="give --stage import, graph or lowered",
            )
        if not is_graph and stage != "instructions" and self.origins:
            raise UsageError("--origins requires --stage import, graph, lowered or instructions")
        if self.svg and shutil.which("dot") is None:
            raise UsageError(
                "--svg needs Graphviz, but its program 'dot' was not found",
                help="install Graphviz, or use --dot and draw the graph elsewhere",
            )

    def kind(self, stage: str) -> FileKind:
        """The kind of file that a stage is written as."""
        if self.dot or self.svg:
            return DOT if self.dot else PICTURE
        return _KINDS.get(stage, GRAPH)

    def place(self, stage: str, model: str) -> Destination:
        """The destination of the program."""
        output = None if self.output == STANDARD_OUTPUT else self.output
        return file_for(output, (self.kind(stage),), model, option="-o", force=self.force)

    def payload_place(self, model: str) -> Path | None:
        """The destination of the constants, if `--payload` was given."""
        return file_for(self.payload, (ARCHIVE,), model, option="--payload", force=self.force).path

    def text(self, dumped: Module | Program | str) -> str:
        """The program in the requested format."""
        if isinstance(dumped, str):
            return dumped
        if isinstance(dumped, Program):
            return print_program(dumped, origins=self.origins)
        if self.dot or self.svg:
            dot = print_dot(dumped.main)
            return _drawn(dot) if self.svg else dot
        return print_module(dumped, origins=self.origins)


@dataclass
class Watch:
    """Observes the passes: what to record, and the dumps recorded so far."""

    after: frozenset[str]
    changed: bool
    timing: Timing | None
    stop: StopAfter | None
    seen: list[tuple[str, str]] = field(default_factory=list)

    def instruments(self) -> tuple[Instrument, ...]:
        """The instruments to attach to the pipelines."""
        wanted: list[Instrument | None] = [self.timing, self.stop]
        if self.after or self.changed:
            names = self.after or None
            wanted.insert(0, Dump(self._keep, names=names, changed_only=self.changed))
        return tuple(instrument for instrument in wanted if instrument is not None)

    @property
    def stopped(self) -> bool:
        """Whether `--stop-after` stopped the pipeline early."""
        return self.stop is not None and len(self.stop.done) >= self.stop.count

    def _keep(self, title: str, text: str) -> None:
        self.seen.append((title, text))


@click.command(cls=VerbCommand)
@takes_model
@click.option("--stage", type=_STAGE, default="graph", show_default=True)
@click.option("--dot", is_flag=True, help="Print the graph in Graphviz's DOT format.")
@click.option("--svg", is_flag=True, help="Draw the graph; needs Graphviz.")
@click.option(
    "--origins",
    is_flag=True,
    help="Show which nodes of the model each node or instruction computes.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file.")
@click.option("--payload", metavar="FILE.npz", help="Write the constants to a .npz file.")
@takes_force
@click.option("--dump-after", multiple=True, metavar="PASS", help="Also print after this pass.")
@click.option("--dump-changed", is_flag=True, help="Also print after each pass that changed it.")
@click.option(
    "--stop-after", type=click.IntRange(0), metavar="N", help="Run only the first N passes."
)
@click.option("--time-passes", is_flag=True, help="Show how long each pass took.")
def dump(
    session: Session,
    request: Request,
    stage: str,
    dump_after: tuple[str, ...],
    dump_changed: bool,
    stop_after: int | None,
    time_passes: bool,
    **form: Any,
) -> int:
    """Print MODEL at a stage: imported, optimised, lowered, planned as instructions, or as code.

    The text is complete except for the elements of large constants, which --payload writes to a
    file. afterglow.parse_module reads it back.

    \b
    Examples:
      afterglow dump model.onnx --stage instructions
      afterglow dump model.onnx --dump-changed
    """  # noqa: D301  click keeps lines after its mark as they are
    written = DumpFormat(**form)
    written.check(stage)
    place, payload = written.place(stage, request.path), written.payload_place(request.path)
    refuse_lists(request, "a dump")
    watch = Watch(
        _known_passes(request, dump_after),
        dump_changed,
        Timing() if time_passes else None,
        None if stop_after is None else StopAfter(stop_after),
    )
    with StageClock(session.err) as clock:
        dumped = _reach(stage, request.watched(clock, *watch.instruments()), watch)
        text = written.text(dumped)
    if payload is not None:
        with writing(payload) as file:
            save_arrays(file, _constants(dumped))
    parts = [f"; {title}\n{seen}" for title, seen in watch.seen]
    whole = "\n".join([*parts, f"; stage {stage}\n{text}" if parts else text])
    data = {"model": request.path, "stage": stage, "text": text, **_watched_data(watch)}
    if place.path is not None:
        place.write_text(whole)
        data["output"] = str(place.path)
        session.answer(data, lambda: None)
    else:
        session.answer(data, lambda: place.write_text(whole))
    if watch.timing is not None and not session.json:
        session.err.print(pass_table(watch.timing))
    return 0


def _reach(stage: str, request: Request, watch: Watch) -> Module | Program | str:
    """The program at a stage, or what there is when `--stop-after` stops before that stage."""
    module = request.load(request.source())
    if stage == "import":
        return module
    stages = Stages(request.options)
    stages.optimise(module)
    if stage == "graph":
        return module
    try:
        stages.lower(module)
    except UnsupportedError:
        if not watch.stopped:
            raise
    if stage == "lowered" or watch.stopped:
        return module
    program = stages.instructions(module)
    if watch.stopped:
        return program
    stages.check_memory(program)
    return program if stage == "instructions" else stages.listing(program, stage)


def _known_passes(request: Request, names: Sequence[str]) -> frozenset[str]:
    stages = Stages(request.options)
    lowering = lowering_pipeline(kernels_of(stages.backend), optimize=request.options.optimize)
    graph = (*optimising_pipeline().passes, *stages.narrowing.passes, *lowering.passes)
    known = dict.fromkeys(step.name for step in (*graph, *stages.memory_passes))
    if request.options.max_arena is not None:
        known.update(dict.fromkeys((Recompute.name, FitArena.name)))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise UsageError(f"unknown pass {unknown[0]!r}", help=f"choose from {', '.join(known)}")
    return frozenset(names)


def _drawn(dot: str) -> str:
    done = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UsageError(f"Graphviz failed: {done.stderr.strip()}")
    return done.stdout


def _constants(dumped: Module | Program | str) -> dict[str, Array]:
    """The constants whose elements are not in the text."""
    if isinstance(dumped, str):
        raise UsageError("--payload requires --stage import, graph, lowered or instructions")
    if isinstance(dumped, Program):
        return {b.name: b.data for b in dumped.constants if b.data is not None}
    return {name: c.data for name, c in dumped.constants.items() if not is_inline(c)}


def _watched_data(watch: Watch) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if watch.seen:
        data["dumps"] = [{"title": title, "text": text} for title, text in watch.seen]
    if watch.timing is not None:
        runs = watch.timing.runs
        data["passes"] = [
            {"name": name, "runs": runs[name], "seconds": seconds}
            for name, seconds in watch.timing.seconds.items()
        ]
    return data
