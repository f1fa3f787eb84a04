"""`afterglow run`: run a model on files or on random numbers, and compare."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from afterglow.cli.arrays import write_arrays
from afterglow.cli.feed import build_feed, takes_inputs
from afterglow.cli.progress import StageClock
from afterglow.cli.report import duration
from afterglow.cli.request import Request, takes_model
from afterglow.cli.results import (
    Result,
    onnxruntime_outputs,
    result_table,
    tensors_of,
)
from afterglow.cli.session import Session
from afterglow.cli.texts import unwritable
from afterglow.driver.compile import compile_with
from afterglow.graph import Array
from afterglow.report.agreement import relative_error
from afterglow.runtime import CompiledModel


@dataclass(frozen=True)
class Trial:
    """What to run a model on, how often, and what to compare it with."""

    inputs: tuple[str, ...]
    seed: int
    repeat: int
    reference: str | None
    tolerance: float


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    results: Sequence[Result]
    compile_seconds: float
    run_seconds: float
    agrees: bool

    def data(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "compile_seconds": self.compile_seconds,
            "run_seconds": self.run_seconds,
            "outputs": [result.data() for result in self.results],
        }


@click.command(short_help="Run a model, and compare its outputs.")
@takes_model
@takes_inputs
@click.option("--repeat", type=click.IntRange(1), default=1, help="Run so often, show the fastest.")
@click.option("--output-dir", type=click.Path(path_type=Path), help="Write each output as .npy.")
@click.option(
    "--compare", "reference", type=click.Choice(["onnxruntime"]), help="Compare the outputs."
)
@click.option("--tolerance", default=1e-4, show_default=True, help="Largest error that agrees.")
def run(session: Session, request: Request, output_dir: Path | None, **trial: Any) -> int:
    """Run MODEL, and show what comes out.

    With --compare, the exit status is 1 unless each output agrees: its error is the largest
    absolute difference over the reference's largest magnitude.
    """
    asked = Trial(**trial)
    with StageClock(session.err) as clock:
        outcome = _run(request.watched(clock), asked, clock)
    if output_dir is not None:
        _write(output_dir, outcome.results)
    data = {"model": request.path, "backend": request.options.backend, **outcome.data()}
    if asked.reference is not None:
        data.update(reference=asked.reference, agrees=outcome.agrees)
    session.answer(data, lambda: _show(session, asked, outcome))
    return 0 if outcome.agrees else 1


def _run(request: Request, trial: Trial, clock: StageClock) -> Outcome:
    options = request.options
    clock("read")
    inputs = request.source().signature(options).inputs
    feed = build_feed(inputs, options, trial.inputs, trial.seed)
    shapes = {name: array.shape for name, array in feed.items()}
    model = compile_with(request.path, replace(options, shapes=shapes, dims={}))
    clock("run")
    compile_seconds = clock.total
    outputs, run_seconds = _timed(model, feed, trial.repeat)
    tensors = _tensors(model, outputs)
    errors: Sequence[float | None] = [None] * len(tensors)
    if trial.reference is not None:
        clock(trial.reference)
        expected = dict(_tensors(model, onnxruntime_outputs(request.path, feed)))
        errors = [
            relative_error(array, expected[name]) if name in expected else math.inf
            for name, array in tensors
        ]
    return Outcome(
        [Result(*tensor, error) for tensor, error in zip(tensors, errors, strict=True)],
        compile_seconds,
        run_seconds,
        agrees=all(error is None or error <= trial.tolerance for error in errors),
    )


def _tensors(model: CompiledModel, outputs: Sequence[Any]) -> list[tuple[str, Array]]:
    names = [info.name for info in model.outputs]
    pairs = zip(names, outputs, strict=True)
    return [tensor for name, output in pairs for tensor in tensors_of(name, output)]


def _timed(model: CompiledModel, feed: Mapping[str, Array], repeat: int) -> tuple[list[Any], float]:
    """The outputs, and the seconds of the fastest run."""
    best = math.inf
    for _ in range(repeat):
        started = perf_counter()
        outputs = model.run(None, feed)
        best = min(best, perf_counter() - started)
    return outputs, best


def _write(folder: Path, results: Sequence[Result]) -> None:
    try:
        write_arrays(folder, {result.name: result.array for result in results})
    except OSError as error:
        raise unwritable(folder, error) from None


def _show(session: Session, trial: Trial, outcome: Outcome) -> None:
    session.show(result_table(outcome.results))
    compiled, ran = duration(outcome.compile_seconds), duration(outcome.run_seconds)
    session.say(f"compiled in {compiled}, ran in {ran}")
    if trial.reference is not None:
        verb = "agrees with" if outcome.agrees else "differs from"
        style = "bold green" if outcome.agrees else "bold red"
        session.say(f"{verb} {trial.reference}, tolerance {trial.tolerance:g}", style)
