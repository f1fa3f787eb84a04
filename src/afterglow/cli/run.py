"""`afterglow run`: run a model on given or random inputs, and compare the outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from afterglow.cli.arrays import write_arrays
from afterglow.cli.destination import TRACE, Destination, file_for, takes_force
from afterglow.cli.each import for_each_extent
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.parameters import Number
from afterglow.cli.peer_model import peer_model
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model, takes_state
from afterglow.cli.results import Result, result_table
from afterglow.cli.saved import load_saved, no_other_engine, saved_feed
from afterglow.cli.session import Session
from afterglow.cli.verb_command import VerbCommand
from afterglow.driver.compile import compile_with
from afterglow.report.agreement import relative_error
from afterglow.report.compare.onnx_runtime import onnxruntime_outputs
from afterglow.report.compare.sides import tensors_of
from afterglow.runtime import CompiledModel, TensorInfo
from afterglow.runtime.recorded import record_model
from afterglow.runtime.trace import Trace
from afterglow.support.lazy_dataclass import dataclass
from afterglow.support.output_path import unwritable
from afterglow.types import Array


@dataclass(frozen=True)
class Trial:
    """The options of a run: inputs, repetitions, and the reference to compare with."""

    inputs: tuple[str, ...]
    seed: int
    repeat: int
    reference: str | None
    tolerance: float
    trace: str | None


@dataclass(frozen=True)
class Outcome:
    """The result of a run: outputs, times, and whether they agree with the reference."""

    results: Sequence[Result]
    is_saved: bool
    prepare_seconds: float
    run_seconds: float
    agrees: bool

    def data(self) -> dict[str, Any]:
        """The JSON representation."""
        return {
            "load_seconds" if self.is_saved else "compile_seconds": self.prepare_seconds,
            "run_seconds": self.run_seconds,
            "outputs": [result.data() for result in self.results],
        }


@click.command(cls=VerbCommand)
@takes_model
@takes_inputs
@click.option(
    "--repeat", type=click.IntRange(1), default=1, help="Number of runs; the fastest counts."
)
@click.option(
    "--output-dir", type=click.Path(path_type=Path), help="Write each output to a .npy file."
)
@click.option(
    "--trace",
    metavar="FILE.json",
    help="Record one more run in a file that Perfetto and chrome://tracing show.",
)
@click.option(
    "--compare", "reference", type=click.Choice(["onnxruntime"]), help="Compare with its outputs."
)
@click.option(
    "--tolerance",
    type=Number("ERROR", zero=True),
    default=1e-4,
    show_default=True,
    help="Largest relative error that counts as agreement.",
)
@takes_force
@takes_state
@for_each_extent("--output-dir", "--trace")
def run(
    session: Session, request: Request, output_dir: Path | None, force: bool, **trial: Any
) -> int:
    """Run MODEL and show its outputs. MODEL may be compiled (FILE.agc, a bundle's library).

    With --compare, the exit status is 1 unless all outputs agree; a model that is not ONNX is
    exported for that. The error of an output is the
    largest absolute difference divided by the reference's largest magnitude. With --state, each
    run begins with the values of those inputs as the state. With --trace, the file shows devices,
    copies between them, and the steps of compiled code, one after the other on one thread.

    \b
    Examples:
      afterglow run model.onnx --compare onnxruntime
      afterglow run model.onnx --input image=image.npy --output-dir results
    """  # noqa: D301  click keeps lines after its mark as they are
    asked = Trial(**trial)
    trace = None
    if asked.trace is not None:
        trace = file_for(asked.trace, (TRACE,), request.path, option="--trace", force=force)
    with StageClock(session.err) as clock:
        outcome = _run(request.watched(clock), asked, clock, trace)
    if output_dir is not None:
        _write(output_dir, outcome.results, force=force)
    data = {"model": request.path, "backend": request.options.where, **outcome.data()}
    if asked.reference is not None:
        data.update(reference=asked.reference, agrees=outcome.agrees)
    session.answer(data, lambda: _show(session, asked, outcome))
    return 0 if outcome.agrees else 1


def _prepare(
    request: Request, trial: Trial, clock: StageClock
) -> tuple[CompiledModel, dict[str, Array]]:
    """The model, ready to run, and its input arrays."""
    if request.is_saved:
        clock("load")
        if trial.reference is not None:
            raise no_other_engine(request, "--compare")
        model = load_saved(request, "repeat", "output_dir", "force", "trace")
        return model, saved_feed(model, request, trial.inputs, trial.seed)
    clock("read")
    feed = build_feed(request.inputs(request.source()), request, trial.inputs, trial.seed)
    if request.dim_options.ranges:
        model = compile_with(request.path, request.options, request.dim_options)
        if not request.options.state:
            model.version_for(feed)  # compiled here if something is in the way of ranges
        return model, feed
    shapes = {name: array.shape for name, array in feed.items()}
    return compile_with(request.path, replace(request.options, shapes=shapes, dims={})), feed


def _run(request: Request, trial: Trial, clock: StageClock, trace: Destination | None) -> Outcome:
    model, feed = _prepare(request, trial, clock)
    clock("run")
    prepare_seconds = clock.total
    outputs, run_seconds = _timed(model, feed, trial.repeat)
    if trace is not None:
        clock("trace")
        _write_trace(model, feed, trace)
    tensors = _tensors(model.outputs, outputs)
    errors: Sequence[float | None] = [None] * len(tensors)
    if trial.reference is not None:
        clock(trial.reference)
        declared = request.source().signature(request.options).outputs
        with peer_model(request, feed) as path:
            expected = dict(_tensors(declared, onnxruntime_outputs(path, feed)))
        errors = [
            relative_error(array, expected[name]) if name in expected else math.inf
            for name, array in tensors
        ]
    return Outcome(
        [Result(*tensor, error) for tensor, error in zip(tensors, errors, strict=True)],
        request.is_saved,
        prepare_seconds,
        run_seconds,
        agrees=all(error is None or error <= trial.tolerance for error in errors),
    )


def _tensors(infos: Sequence[TensorInfo], outputs: Sequence[Any]) -> list[tuple[str, Array]]:
    pairs = zip((info.name for info in infos), outputs, strict=True)
    return [tensor for name, output in pairs for tensor in tensors_of(name, output)]


def _timed(model: CompiledModel, feed: Mapping[str, Array], repeat: int) -> tuple[list[Any], float]:
    """The outputs, and the seconds of the fastest run; each begins with the same state."""
    given, state = _divided(model, feed)
    best = math.inf
    for _ in range(repeat):
        model.reset(state)
        started = perf_counter()
        outputs = model.run(None, given)
        best = min(best, perf_counter() - started)
    return outputs, best


def _divided(
    model: CompiledModel, feed: Mapping[str, Array]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """What a run is given, and the state that it begins with."""
    given = {info.name: feed[info.name] for info in model.inputs}
    return given, {name: array for name, array in feed.items() if name not in given}


def _write_trace(model: CompiledModel, feed: Mapping[str, Array], place: Destination) -> None:
    given, state = _divided(model, feed)
    trace = Trace()
    record_model(trace, model, given, lambda: model.reset(state))
    place.write_text(trace.text())


def _write(folder: Path, results: Sequence[Result], *, force: bool) -> None:
    try:
        write_arrays(folder, {result.name: result.array for result in results}, force=force)
    except OSError as error:
        raise unwritable(folder, error) from None


def _show(session: Session, trial: Trial, outcome: Outcome) -> None:
    session.show(result_table(outcome.results))
    prepared, ran = duration(outcome.prepare_seconds), duration(outcome.run_seconds)
    done = "loaded" if outcome.is_saved else "compiled"
    session.say(f"{done} in {prepared}, ran in {ran}")
    if trial.reference is not None:
        verb = "agrees with" if outcome.agrees else "differs from"
        style = "bold green" if outcome.agrees else "bold red"
        session.say(f"{verb} {trial.reference}, tolerance {trial.tolerance:g}", style)
